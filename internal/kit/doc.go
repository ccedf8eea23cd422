// Package kit holds what the drivers of this repository share: the attempts of a conditional write,
// the clock of a server, and the forms of what they store.
//
// It is no part of the contract, which is package driver. A driver needs none of it.
package kit
