//go:build !race && night

package admission

const defaultOps = 10_000_000
