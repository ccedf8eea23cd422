//go:build night

package main

func init() {
	installed = append(installed, "bench", "examples/...", "internal/...")
}
