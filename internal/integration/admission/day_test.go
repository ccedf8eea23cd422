//go:build !race && !night

package admission

const defaultOps = 200_000
