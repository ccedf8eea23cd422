//go:build night

package main

func init() {
	withRace = true
	morePorts = []string{"linux/arm64", "darwin/arm64"}
	installed = append(installed, "bench", "examples/...", "internal/...")
}
