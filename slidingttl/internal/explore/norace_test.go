//go:build !race

package explore

// gateParts is of how many parts the gate explores one.
const gateParts = 1
