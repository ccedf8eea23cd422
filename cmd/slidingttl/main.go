// Command slidingttl inspects and audits stores, and brings their records under a policy.
// Its commands are inspect, audit, diff, plan, adopt, mend, reap, retire, harvest and schema, and
// archive for an archive of dead records. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Exit codes, which the help of the command lists too.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitStopped = 3
	exitDead    = 4
	exitPartly  = 5
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], terminal(os.Stdin, os.Stdout, os.Stderr)))
}

// run is main, for tests.
func run(ctx context.Context, args []string, io streams) int {
	a, root := newRoot(io)
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	err := root.ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && !a.began {
		code = exitUsage // cobra's own errors have no type
	}
	if ctx.Err() != nil && code == exitFailed {
		code = exitStopped // a client may have its own words for that
	}
	if err != nil && !errors.Is(err, errDead) {
		say(io.err, flagNames.Replace(err.Error()))
	}
	return code
}

// flagNames puts flags in the place of the fields that they set, for errors of package upkeep.
var flagNames = strings.NewReplacer(
	"Options.Limits.Records", "--rate", "Options.Limits.Writes", "--writes", "Options.Limits.Cost", "--cost",
	"Options.MaxFailed", "--max-errors", "Options.Shards", "--shards",
	"Options.Resume", "--resume", "Options.Save", "--checkpoint", "AdoptOptions.Undo", "--undo", "AdoptOptions.Spread", "--spread",
	"LookOptions.Sample", "--sample", "WriteOptions.Kinds", "--kinds", "Options.Prefix", "--prefix",
	"MendOptions.CreatedAt", "--created-at", "ReapOptions.Grace", "--grace", "HarvestOptions.Grace", "--grace", "twice MaxSkew", "twice --max-skew", "DyingOptions.Limit", "--limit",
)

// errUsage says that the command line is wrong.
var errUsage = errors.New("usage")

// errDead says that the record that was asked for is not readable.
var errDead = errors.New("not alive")

// errPartly says that an operation is done, and that some records could not be read or
// written.
var errPartly = errors.New("records failed, and were left as they are")

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errPartly):
		return exitPartly
	case errors.Is(err, upkeep.ErrTooMany):
		return exitFailed
	case errors.Is(err, errDead):
		return exitDead
	case errors.Is(err, context.Canceled):
		return exitStopped
	case errors.Is(err, errUsage), errors.Is(err, slidingttl.ErrInvalid):
		return exitUsage
	}
	return exitFailed
}

func say(w io.Writer, what any) { _, _ = fmt.Fprintln(printable{w}, "slidingttl:", what) }
