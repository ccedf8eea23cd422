package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// paceFlags is the flags of everything that goes through all records.
type paceFlags struct {
	upkeep.Options
	checkpoint string
	resume     bool
	finished   bool // what is to go on was finished before
	apply      bool // the store is written to
}

func (p *paceFlags) flags(c *cobra.Command) {
	p.rates(c)
	f := c.Flags()
	f.StringVar(&p.checkpoint, "checkpoint", "", "`file` to keep the place in; it may hold keys")
	f.BoolVar(&p.resume, "resume", false, "go on from the place in --checkpoint")
}

// rates is the flags but for the place.
func (p *paceFlags) rates(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&p.Segments, "segments", 4, "parts of the store gone through at once")
	f.IntVar(&p.Page, "page", 500, "records asked for at a time")
	f.Float64Var(&p.Limits.Records, "rate", 0, "records looked at in a second, at most (0: no limit)")
	f.Float64Var(&p.Limits.Cost, "cost", 0, "units of the store's own spent in a second, at most (0: no limit)")
}

// open reads the checkpoint to go on from, and keeps those to come.
func (p *paceFlags) open() error {
	if p.checkpoint == "" {
		if p.resume {
			return fmt.Errorf("%w: --resume needs the --checkpoint to go on from", errUsage)
		}
		return nil
	}
	content, err := os.ReadFile(p.checkpoint)
	switch {
	case p.resume && err != nil:
		return fmt.Errorf("%w: --checkpoint: %w", errUsage, err)
	case p.resume:
		p.Resume = new(upkeep.Checkpoint)
		if err := json.Unmarshal(content, p.Resume); err != nil {
			return fmt.Errorf("%w: --checkpoint %s: %w", errUsage, p.checkpoint, err)
		}
		p.finished = p.Resume.Done()
	case err == nil:
		return fmt.Errorf("%w: %s is there already: go on from it with --resume, or remove it", errUsage, p.checkpoint)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	p.Save = func(c upkeep.Checkpoint) error { return writeCheckpoint(p.checkpoint, c) }
	return nil
}

// writeCheckpoint puts c in the place of the file at path, whole or not at all.
func writeCheckpoint(path string, c upkeep.Checkpoint) (err error) {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".slidingttl-*") // only its owner reads it
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// show shows how far p is, where there is a terminal, until the function returned is
// called.
func (a *app) show(p *paceFlags, what string) func() {
	if !a.asks {
		return func() {}
	}
	bar := progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("records"),
		progressbar.OptionSetSpinnerChangeInterval(0), // or it writes from a goroutine of its own, after its end too
		progressbar.OptionClearOnFinish(),
	)
	p.Progress = func(now upkeep.Progress) {
		bar.Describe(fmt.Sprintf("%s: %d records, %d writes, %d of %d segments done", what, now.Records, now.Writes, now.Done, now.Segments))
		_ = bar.Set64(now.Records)
	}
	return func() { _ = bar.Finish() }
}

// finish ends an operation: prints what was found, also where it failed.
func (a *app) finish(p *paceFlags, report fmt.Stringer, err error) error {
	if errors.Is(err, context.Canceled) && p.checkpoint != "" {
		err = fmt.Errorf("%w; go on with --checkpoint %s --resume", err, p.checkpoint)
	}
	if err == nil && p.finished {
		err = fmt.Errorf("%w: the run of --checkpoint %s was finished before, and no record was looked at: remove the file to begin anew", errUsage, p.checkpoint)
	}
	if isNil(report) {
		return err
	}
	return errors.Join(err, a.print(report))
}

func isNil(report fmt.Stringer) bool {
	switch r := report.(type) {
	case *upkeep.AuditReport:
		return r == nil
	case *upkeep.DiffReport:
		return r == nil
	case *upkeep.AdoptReport:
		return r == nil
	case *upkeep.MendReport:
		return r == nil
	case *upkeep.ReapReport:
		return r == nil
	case *upkeep.HarvestReport:
		return r == nil
	}
	return report == nil
}

// writeFlags is the flags of everything that writes.
type writeFlags struct {
	paceFlags
	yes     bool
	writes  float64
	writers int
}

func (w *writeFlags) flags(c *cobra.Command) {
	w.paceFlags.flags(c)
	f := c.Flags()
	f.BoolVar(&w.apply, "apply", false, "write; without it nothing is written")
	f.BoolVar(&w.yes, "yes", false, "do not ask before writing")
	f.Float64Var(&w.writes, "writes", 500, "writes tried in a second, at most (0: no limit)")
	f.Float64Var(&w.Limits.WriteCost, "write-cost", 1, "what one write is taken to cost, for --cost")
	f.IntVar(&w.writers, "writers", 16, "writes under way at once")
}

func (w *writeFlags) options() upkeep.WriteOptions {
	o := upkeep.WriteOptions{Options: w.Options, Apply: w.apply, Writers: w.writers}
	o.Limits.Writes = w.writes
	return o
}

// agreed asks, where there is a terminal, whether to do what is about to be done.
func (a *app) agreed(w *writeFlags, what string) error {
	if !w.apply || w.yes || !a.asks {
		return nil
	}
	_, _ = fmt.Fprintf(a.err, "%s\nGo ahead? [y/N] ", what)
	var answer string
	_, _ = fmt.Fscanln(a.in, &answer)
	if a := strings.ToLower(answer); a != "y" && a != "yes" {
		return fmt.Errorf("%w: not agreed to; nothing was written", errUsage)
	}
	return nil
}
