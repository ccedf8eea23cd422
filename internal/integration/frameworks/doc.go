// Package frameworks holds nothing but tests: that sessions work under chi, echo and
// gin as the snippets in the README of package middleware say, and in front of Connect's handlers.
package frameworks
