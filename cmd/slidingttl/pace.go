package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// paceFlags is the flags of everything that goes through all records.
type paceFlags struct {
	upkeep.Options
	target
	checkpoint string
	resume     bool
	merge      bool
	sameStore  bool
	resumes    bool     // there is a --checkpoint to give
	unlock     func()   // nil: there is no checkpoint
	finished   bool     // what is to go on was finished before
	was, store identity // of the checkpoint to go on from, and of those to come
	errors     string
	progress   time.Duration
	metrics    string  // the address where Prometheus reads how far it is; empty: none
	price      float64 // of a million write units
	apply, yes bool    // the store is written to, without a question
	unchecked  bool
}

func (p *paceFlags) flags(c *cobra.Command) {
	p.rates(c)
	p.some(c)
	f := c.Flags()
	f.StringVar(&p.checkpoint, "checkpoint", "", "`file` to keep the place in; it may hold keys")
	f.BoolVar(&p.resume, "resume", false, "go on from the place in --checkpoint")
	f.IntVar(&p.Shards, "shards", 0, "only part the store for so many machines: write a file for each, by the name of --checkpoint and .1of8, from which the same command goes on with --resume")
	f.BoolVar(&p.merge, "merge", false, "add up what all the shards of --checkpoint have found; they must be done")
	f.BoolVar(&p.sameStore, "same-store", false, "go on, or take back, though the store has another identity than in the file: it was restored, or it is a Redis that restarted")
	c.MarkFlagsMutuallyExclusive("resume", "shards", "merge")
	p.resumes = true
}

// some is the flag that narrows an operation to a part of the store.
func (p *paceFlags) some(c *cobra.Command) {
	c.Flags().StringVar(&p.Prefix, "prefix", "", "only keys that begin with this, such as those of a tenant")
}

// rates is the flags but for the place.
func (p *paceFlags) rates(c *cobra.Command) {
	p.target.flags(c)
	f := c.Flags()
	f.Float64Var(&p.Limits.Records, "rate", 10000, "records looked at in a second, at most (0: no limit)")
	f.Float64Var(&p.Limits.Cost, "cost", 0, "units of the store's own spent in a second, at most (0: no limit)")
	f.DurationVar(&p.progress, "progress", time.Minute, "how often to log how far it is, where there is no terminal (0: never)")
	f.StringVar(&p.metrics, "metrics", "", "`address` such as :9090 at which Prometheus reads how far it is, and programs of this machine POST /pause, /resume and /limits?writes=100")
	f.StringVar(&p.errors, "errors", "", "`file` to add the keys of records to that fail, and why; only its owner reads it")
	f.Float64Var(&p.MaxFailed, "max-errors", 0.001, "share of the records that may fail before it ends (1: it goes on; 100 may in any case)")
}

// open reads the checkpoint to go on from, and keeps those to come.
func (p *paceFlags) open() error {
	if !(p.MaxFailed > 0 && p.MaxFailed <= 1) { // zero would mean the default
		return fmt.Errorf("%w: --max-errors is %v: must be more than 0, and at most 1; 100 records may fail in any case", errUsage, p.MaxFailed)
	}
	if !(p.price >= 0 && p.price <= 1e15) {
		return fmt.Errorf("%w: --price is %v: must be from 0 to 1e15", errUsage, p.price)
	}
	if p.checkpoint != "" && p.Shards == 0 && !p.merge {
		unlock, err := lock("--checkpoint", p.checkpoint)
		if err != nil {
			return err
		}
		p.unlock = unlock
	}
	switch {
	case p.checkpoint == "" && (p.resume || p.merge || p.Shards > 0):
		return fmt.Errorf("%w: --resume, --shards and --merge need a --checkpoint", errUsage)
	case p.checkpoint == "":
		return nil
	case p.merge:
		return p.openShards()
	case p.resume:
		c, err := readCheckpoint(p.checkpoint)
		if err != nil {
			return err
		}
		p.Resume, p.was, p.finished = &c.Checkpoint, c.Of, c.Done()
	case p.Shards > 0:
		shard := 0
		p.Save = func(c upkeep.Checkpoint) error {
			shard++
			path := p.shard(shard, p.Shards)
			if err := absent(path, "go on from it with --resume"); err != nil {
				return err
			}
			return p.write(path, c)
		}
		return nil
	default:
		if err := absent(p.checkpoint, "go on from it with --resume"); err != nil {
			return err
		}
	}
	p.Save = func(c upkeep.Checkpoint) error { return p.write(p.checkpoint, c) }
	return nil
}

// lock keeps another run from the same file of flag, by whatever link, until unlock is called or the process ends.
func lock(flag, path string) (unlock func(), err error) {
	name := path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		name = to
	}
	name += ".lock"
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errUsage, flag, err)
		}
		if err := lockFile(f); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("%w: another run has %s %s open: %w", errUsage, flag, path, err)
		}
		if named(f) {
			return func() { _ = errors.Join(os.Remove(name), f.Close()) }, nil
		}
		_ = f.Close() // another run removed it after it was opened here, and the next one would make another
	}
}

// named reports whether a file still has its name.
func named(f *os.File) bool {
	is, err := f.Stat()
	at, named := os.Stat(f.Name())
	return err == nil && named == nil && os.SameFile(is, at)
}

// absent says that path is there, for what is not written twice.
func absent(path, instead string) error {
	_, err := os.Stat(path)
	if err == nil {
		return fmt.Errorf("%w: %s is there already: %s, or remove it", errUsage, path, instead)
	} else if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// readCheckpoint reads the checkpoint to go on from.
func readCheckpoint(path string) (*kept, error) {
	var c kept
	if err := readJSON(path, &c); err != nil {
		return nil, fmt.Errorf("%w: --checkpoint %s: %w", errUsage, path, err)
	}
	return &c, nil
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func (p *paceFlags) write(path string, c upkeep.Checkpoint) error {
	return put(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(kept{p.store, c}) })
}

// put writes the file at path, whole or not at all.
func put(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".slidingttl-*") // only its owner reads it
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// applies is the flags by which a command writes.
func (p *paceFlags) applies(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&p.apply, "apply", false, "write; without it nothing is written")
	f.BoolVar(&p.yes, "yes", false, "do not ask before writing")
	f.BoolVar(&p.unchecked, "unchecked", false, "write though a check of the store finds something wrong")
}

// writeFlags is the flags of everything that writes.
type writeFlags struct {
	paceFlags
	kinds  []string
	keys   []string // to look up, in place of a scan
	follow bool
}

func (w *writeFlags) flags(c *cobra.Command) {
	w.paceFlags.flags(c)
	w.applies(c)
	f := c.Flags()
	f.Float64Var(&w.Limits.Writes, "writes", 500, "writes tried in a second, at most (0: no limit)")
	f.BoolVar(&w.follow, "follow", false, "begin with few writes a second, and after a minute make more, up to --writes, while they take little longer")
	f.Float64Var(&w.price, "price", 0, "price of a million write units, each of up to 1 KB of a record, for what a dry run would cost")
	f.StringSliceVar(&w.kinds, "kinds", nil, "write also records of middleware/session, which have policies of their own: session, index or both")
}

func (w *writeFlags) options() upkeep.WriteOptions {
	return upkeep.WriteOptions{Options: w.Options, Apply: w.apply, Follow: w.follow, Keys: w.keys, Kinds: w.kinds}
}
