package policyfile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Options adjusts Follow. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Interval is how often the file is looked at. Zero: 10 s.
	Interval time.Duration

	// OnError is told why the file as it is now does not count: once, until its
	// content, or the error that keeps it from being read, is another. Nil:
	// nobody is told.
	OnError func(error)
}

const defaultInterval = 10 * time.Second

// Follow looks at the file until ctx ends, and returns ctx's error. Where it has
// changed, each function of apply is given the policy of its name; at the start all
// are, and after a failure too. Then Policy answers by the new file.
//
// The functions are called one at a time on Follow's goroutine, in the order of their
// names. One that returns an error must have left the policy as it was; a file that
// failed so is not tried again until it changes. Follow a file once at a time. An
// option that breaks its rule is an *slidingttl.InvalidError.
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
		if err := fl.look(); err != nil && o.OnError != nil {
			o.OnError(err)
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
	last  *sight   // nil before the first look
	sure  bool     // that every function of apply was last given what Policy says
}

// sight is what a look at the file saw.
type sight struct{ content, failure string }

// look has the file applied unless it looks as it did the last time.
func (f *follower) look() (err error) {
	content, err := os.ReadFile(f.path)
	now := sight{content: string(content)}
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

// swap has every function of apply, and then Policy, go over to next, or none.
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
