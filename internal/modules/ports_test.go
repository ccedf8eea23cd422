package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The root module compiles for the systems that its users run, its tests too; outside of the
// gate for the one where alignment and the size of an int differ. Tests run on some of them by
// .github/workflows/gate.yml.
func TestCompilesElsewhere(t *testing.T) {
	t.Parallel()
	tree := readTestTree(t)
	ports := []string{"linux/386", "linux/arm64", "darwin/arm64", "windows/amd64"}
	if os.Getenv("CI") == "" {
		ports = ports[:1]
	}
	for _, port := range ports {
		t.Run(port, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(port, "/")
			cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
			cmd.Dir = tree.root
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=-trimpath")
			if _, err := output(cmd); err != nil {
				t.Error(err)
			}
		})
	}
}
