package policyfile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Options adjusts Follow. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Interval is how often the file is read. Zero: 10 s.
	Interval time.Duration

	// OnError is called with the reason why the current file is refused: once, until its
	// content changes, or the error of reading it does. Nil: not called.
	OnError func(error)
}

const defaultInterval = 10 * time.Second

// Follow rereads the file until ctx ends, and returns ctx's error. When the file has changed, it
// calls the functions of apply whose policies differ, each with the policy of its name. It calls
// all of them at the start, and after a failure to restore. Then Policy uses the new file.
//
// The functions are called one at a time on Follow's goroutine, in the order of their names. A
// function that returns an error must have left its policy unchanged; the file is then not tried
// again until it changes. Follow a file only once at a time. An option that breaks its rule is an
// *slidingttl.InvalidError.
func (f *File) Follow(ctx context.Context, apply map[string]func(slidingttl.Policy) error, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case o.Interval < 0:
		return &slidingttl.InvalidError{Field: "Options.Interval", Value: o.Interval.String(), Rule: "must not be negative"}
	case o.Interval == 0:
		o.Interval = defaultInterval
	}
	fl := follower{File: f, apply: apply, names: slices.Sorted(maps.Keys(apply))}
	ticker := time.NewTicker(o.Interval)
	defer ticker.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fl.reload(); err != nil {
			hook.Tell(o.OnError, err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// follower is one Follow.
type follower struct {
	*File
	apply map[string]func(slidingttl.Policy) error
	names []string // of apply, sorted
	last  *state   // of the file; nil before the first read
	sure  bool     // every function of apply has the policy that Policy returns
}

// state is the file's content, or the error of reading it.
type state struct{ content, failure string }

// reload applies the file if it has changed since the last call.
func (f *follower) reload() (err error) {
	content, err := os.ReadFile(f.path)
	now := state{content: string(content)}
	if err != nil {
		now.failure = err.Error()
	}
	if f.last != nil && *f.last == now {
		return nil
	}
	f.last = &now
	defer func() { f.refused.Store(err != nil) }()
	if err != nil {
		return fmt.Errorf("policyfile: %w", err)
	}
	next, err := f.parse(content, f.names)
	if err != nil {
		return err
	}
	return f.swap(next)
}

// swap gives next to every function of apply and then to Policy, or to none of them.
func (f *follower) swap(next set) error {
	was := *f.set.Load()
	for i, name := range f.names {
		p := next[name]
		if f.sure && p == was[name] {
			continue
		}
		if err := f.apply[name](p); err != nil {
			err = fmt.Errorf("policyfile: %s: policy %q: %w", f.path, name, err)
			return errors.Join(err, f.giveBack(f.names[:i], was))
		}
	}
	f.sure = true
	f.accept(next)
	return nil
}

func (f *follower) giveBack(names []string, was set) (err error) {
	for _, name := range names {
		p, ok := was[name]
		if !ok { // Open did not ask for it
			continue
		}
		if e := f.apply[name](p); e != nil {
			f.sure = false
			err = errors.Join(err, fmt.Errorf("policyfile: %s: policy %q, restoring the former policy: %w", f.path, name, e))
		}
	}
	return err
}
