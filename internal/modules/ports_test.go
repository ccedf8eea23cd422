package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// morePorts are tried at night only: the root module has no file for one system alone.
var morePorts []string

// The root module compiles for the systems that its users run, its tests too; outside of the
// gate for the one where alignment and the size of an int differ. .github/workflows/gate.yml
// vets it on all of them too, and runs tests there.
func TestCompilesElsewhere(t *testing.T) {
	t.Parallel()
	tree := readTestTree(t)
	ports := []string{"linux/386"}
	if os.Getenv("CI") != "" {
		ports = append(ports, "windows/amd64")
	}
	for _, port := range append(ports, morePorts...) {
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
