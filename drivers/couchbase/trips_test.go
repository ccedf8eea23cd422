package couchbase_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Each cell of the table of round trips, as the node counts them. waits has, for each wait of
// the caller, the number of operations that it waits for.
func TestRoundTrips(t *testing.T) {
	const idle, slack = 30 * time.Minute, 3 * time.Minute
	policy := slidingttl.Policy{IdleGrace: idle, MaxLifetime: 12 * time.Hour, Slack: slack}
	type counts = couchbasetest.Counts
	cells := []struct {
		name    string
		touches slidingttl.TouchMode
		absent  bool // start without the record
		fresh   bool // act through a store that has seen nothing
		act     func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error
		want    counts
		waits   []uint64
	}{
		{
			name: "get not due",
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				_, err := s.Get(ctx, "k")
				return err
			},
			want: counts{LookupIn: 1}, waits: []uint64{1},
		}, {
			name: "get due, of a record that is remembered",
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				f.Advance(slack + time.Second)
				_, err := s.Get(ctx, "k")
				return err
			},
			want: counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, waits: []uint64{2},
		}, {
			name: "get due, of one that is not", fresh: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				f.Advance(slack + time.Second)
				_, err := s.Get(ctx, "k")
				return err
			},
			want: counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, waits: []uint64{1, 1},
		}, {
			name: "get due, in the background", touches: slidingttl.Background,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				f.Advance(slack + time.Second)
				_, err := s.Get(ctx, "k")
				return err
			},
			want: counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, waits: []uint64{1},
		}, {
			name: "get of an absent key", absent: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				if _, err := s.Get(ctx, "k"); err == nil {
					return fmt.Errorf("got an absent record")
				}
				return nil
			},
			want: counts{LookupIn: 1}, waits: []uint64{1},
		}, {
			name: "insert", absent: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				return s.Insert(ctx, "k", profile{})
			},
			want: counts{MutateIn: 1, Mutations: 1}, waits: []uint64{1},
		}, {
			name: "upsert of a new key", absent: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				return s.Upsert(ctx, "k", profile{})
			},
			want: counts{MutateIn: 1, LookupIn: 1, Mutations: 1}, waits: []uint64{2},
		}, {
			name: "upsert of a live key that is known",
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				return s.Upsert(ctx, "k", profile{})
			},
			want: counts{Replace: 1, Mutations: 1}, waits: []uint64{1},
		}, {
			name: "upsert of a live key that is not known", fresh: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				return s.Upsert(ctx, "k", profile{})
			},
			want: counts{MutateIn: 1, LookupIn: 1, Replace: 1, Mutations: 1}, waits: []uint64{2, 1},
		}, {
			name: "touch by key alone, due", fresh: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				f.Advance(slack + time.Second)
				_, err := s.Touch(ctx, "k")
				return err
			},
			want: counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, waits: []uint64{1, 1},
		}, {
			name: "touch by key alone, not due", fresh: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				_, err := s.Touch(ctx, "k")
				return err
			},
			want: counts{LookupIn: 1}, waits: []uint64{1},
		}, {
			name: "update", fresh: true,
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				_, err := s.Update(ctx, "k", func(p profile) (profile, error) { return p, nil })
				return err
			},
			want: counts{LookupIn: 1, Replace: 1, Mutations: 1}, waits: []uint64{1, 1},
		}, {
			name: "delete",
			act: func(ctx context.Context, f *fixture, s *slidingttl.Store[profile]) error {
				return s.Delete(ctx, "k")
			},
			want: counts{Remove: 1, Mutations: 1}, waits: []uint64{1},
		},
	}
	for _, cell := range cells {
		t.Run(cell.name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			d := newDriver[profile](t, f, nil)
			s := newStore(t, f, d, policy, &slidingttl.Options[profile]{Touches: cell.touches})
			if !cell.absent {
				ok(t, "Insert", s.Insert(t.Context(), "k", profile{}))
			}
			if cell.fresh {
				s = newStore(t, f, d, policy, &slidingttl.Options[profile]{Touches: cell.touches})
			}
			got := f.during(func() {
				ok(t, cell.name, f.waits(t, cell.waits, func() error { return cell.act(t.Context(), f, s) }))
				ok(t, "Close", s.Close(t.Context())) // background touches
			})
			if got != cell.want {
				t.Errorf("the node counted %+v; want %+v", got, cell.want)
			}
		})
	}
}

// waits makes a call, and fails unless it returns after as many waits for answers as there are
// rounds. The answers of a round are held until all of its operations are under way.
func (f *fixture) waits(t *testing.T, rounds []uint64, call func() error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begun := f.Counts()
	release := f.Hold()
	defer func() { release() }()
	done := make(chan error, 1)
	go func() { done <- call() }()
	var sent uint64
	for i, n := range rounds {
		sent += n
		under := func(c couchbasetest.Counts) bool { return operations(c.Since(begun)) >= sent }
		if err := f.Await(ctx, under); err != nil {
			t.Fatalf("wait %d: %v; %+v are under way, want %d operations", i+1, err, f.Counts().Since(begun), sent)
		}
		next := f.Hold()
		release()
		release = next
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		t.Fatalf("the caller waits for more after %d waits; the node has counted %+v", len(rounds), f.Counts().Since(begun))
		return nil
	}
}

// operations returns the number of operations that a store's calls made.
func operations(c couchbasetest.Counts) uint64 {
	return c.LookupIn + c.MutateIn + c.Insert + c.Replace + c.Remove
}

// In the body place a document is always written whole, in as many trips.
func TestRoundTripsInBody(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, &couchbase.Options{CreatedIn: couchbase.Body})
	s := newStore(t, f, d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour * 24}, nil)
	for _, step := range []struct {
		name string
		act  func() error
		want couchbasetest.Counts
	}{
		{"upsert of a new key", func() error { return s.Upsert(t.Context(), "k", profile{}) }, couchbasetest.Counts{Insert: 1, LookupIn: 1, Mutations: 1}},
		{"upsert of a known key", func() error { return s.Upsert(t.Context(), "k", profile{}) }, couchbasetest.Counts{Replace: 1, Mutations: 1}},
		{"get not due", func() error { _, err := s.Get(t.Context(), "k"); return err }, couchbasetest.Counts{LookupIn: 1}},
		{"get due", func() error {
			f.Advance(time.Minute)
			_, err := s.Get(t.Context(), "k")
			return err
		}, couchbasetest.Counts{LookupIn: 1, MutateIn: 1, Mutations: 1}},
	} {
		if got := f.during(func() { ok(t, step.name, step.act()) }); got != step.want {
			t.Errorf("%s: the node counted %+v; want %+v", step.name, got, step.want)
		}
	}
}

// A key that is read all the time is written once per slack.
func TestHotKeysCostOneWritePerSlack(t *testing.T) {
	const keys, readers = 20, 8
	const idle, slack, tick = 30 * time.Minute, 3 * time.Minute, 20 * time.Second
	f := open(t)
	s := newStore(t, f, newDriver[profile](t, f, nil), slidingttl.Policy{IdleGrace: idle, MaxLifetime: 12 * time.Hour, Slack: slack}, nil)
	key := func(i int) string { return fmt.Sprint("hot", i) }
	for i := range keys {
		ok(t, "Insert", s.Insert(t.Context(), key(i), profile{}))
	}
	const windows = int(time.Hour / slack)
	got := f.during(func() {
		for range int(time.Hour / tick) {
			f.Advance(tick)
			together(readers, func(r int) {
				for i := range keys / readers * 2 {
					if _, err := s.Get(t.Context(), key((r*7+i*3)%keys)); err != nil {
						t.Errorf("Get: %v", err)
					}
				}
			})
		}
	})
	if most := uint64(keys * windows); got.Mutations > most || got.Mutations == 0 {
		t.Errorf("%d mutations in an hour; want at most %d, one for each of %d keys and %d windows", got.Mutations, most, keys, windows)
	}
	t.Logf("%d reads, %d mutations", got.LookupIn, got.Mutations)
}
