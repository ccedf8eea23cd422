//go:build race

package explore

// gateParts is of how many parts the gate explores one: the race detector makes a run ten
// times as long, and finds in one part what it finds in all.
const gateParts = 10
