// Package hot tests drivers/hot over Redis: the contract of a driver, and what the server's
// tracking pushes.
package hot
