// Command modules looks after the go.mod files of this repository. Each module
// requires the version that the next tag gives the others, which no proxy has
// yet, so the go command alone can neither tidy nor build one without go.work.
// This one first serves the tree as a proxy that has them.
//
//	go run ./internal/modules tidy            # mend every go.mod and go.sum
//	go run ./internal/modules version v0.2.0  # have the next tags give v0.2.0
//	go run ./internal/modules release v0.1.0  # say which tags a release makes; apply makes them
//
// Its tests hold the modules to the import rules, and to being releasable.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	t, err := readTree(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "tidy":
		return t.tidy(ctx)
	case len(args) == 2 && args[0] == "version":
		return t.setVersion(args[1])
	case len(args) == 2 && args[0] == "release":
		return t.release(ctx, os.Stdout, args[1], false)
	case len(args) == 3 && args[0] == "release" && args[2] == "apply":
		return t.release(ctx, os.Stdout, args[1], true)
	}
	return errors.New("usage: modules tidy, modules version vX.Y.Z, or modules release vX.Y.Z [apply]")
}
