// Package show shows a sliding expiry with two limits on any driver.
package show

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Note is a record's value.
type Note struct {
	Text string `json:"text" dynamodbav:"text"`
}

var something = Note{"something worth keeping"}

// All shows it in a few seconds of real time, then with 30 and 90 days on virtual time.
func All(ctx context.Context, d driver.Driver[Note]) error {
	unit := time.Second
	if d.Resolution() > time.Millisecond {
		unit = 6 * time.Second // a store that counts whole seconds
	}
	if err := RealTime(ctx, d, unit); err != nil {
		return err
	}
	return VirtualTime(ctx, d)
}

// RealTime keeps three records for a few units of time and prints their state.
func RealTime(ctx context.Context, d driver.Driver[Note], unit time.Duration) error {
	policy := slidingttl.Policy{
		IdleGrace:   unit / 2,
		MaxLifetime: 2 * unit,
		Slack:       unit / 10,
	}
	store, err := slidingttl.New(d, policy, nil)
	if err != nil {
		return err
	}
	defer store.Close(ctx)

	fmt.Printf("A record dies %v after its last read (up to %v later, the slack%s), and %v\n", policy.IdleGrace, policy.Slack, rounding(d), policy.MaxLifetime)
	fmt.Printf("after its creation however often it is read.\n\n")
	fmt.Printf("  time   %-22s %-22s %-22s\n", "forgotten", "visited", "hot")
	fmt.Printf("         %-22s %-22s %-22s\n", "never read", fmt.Sprintf("born at %v, read", unit), fmt.Sprintf("read every %v", unit/100))
	fmt.Printf("         %-22s %-22s %-22s\n\n", "", fmt.Sprintf("every %v", unit*4/10), "")

	start := time.Now()
	since := func() time.Duration { return time.Since(start) }
	for _, key := range []string{"forgotten", "hot"} {
		if err := store.Upsert(ctx, key, something); err != nil {
			return err
		}
	}
	hot := reads{store: store, key: "hot", every: unit / 100}
	visited := reads{store: store, key: "visited", every: unit * 4 / 10, next: unit}
	born := false
	for row := time.Duration(0); row <= 26*unit/10; row += unit / 5 {
		for since() < row {
			if !born && since() >= unit {
				born = true
				if err := store.Upsert(ctx, "visited", something); err != nil {
					return err
				}
			}
			for _, r := range []*reads{&hot, &visited} {
				if err := r.due(ctx, since()); err != nil {
					return err
				}
			}
			time.Sleep(unit / 500)
		}
		fmt.Printf(" %4.1fs  ", since().Seconds())
		for _, key := range []string{"forgotten", "visited", "hot"} {
			fmt.Printf(" %-22s", state(ctx, store, key))
		}
		fmt.Println()
	}
	if err := store.Close(ctx); err != nil {
		return err
	}
	st := store.Stats()
	fmt.Printf("\nThe two were read %d times while alive. A touch on every read would have written as\n", hot.found+visited.found)
	fmt.Printf("often; with slack it took %d writes, and no record died before its time.\n", st.Touched)
	return nil
}

// rounding says by how much more a store that counts whole seconds may be late.
func rounding(d driver.Driver[Note]) string {
	if d.Resolution() > time.Millisecond {
		return fmt.Sprintf(", and %v for rounding", d.Resolution())
	}
	return ""
}

// reads reads a key at regular times.
type reads struct {
	store       *slidingttl.Store[Note]
	key         string
	every, next time.Duration
	found       int
}

func (r *reads) due(ctx context.Context, now time.Duration) error {
	if now < r.next {
		return nil
	}
	r.next += r.every
	switch _, err := r.store.Get(ctx, r.key); {
	case err == nil:
		r.found++
	case !errors.Is(err, slidingttl.ErrNotFound):
		return err
	}
	return nil
}

// state returns the state of key, without touching it.
func state(ctx context.Context, store *slidingttl.Store[Note], key string) string {
	e, err := store.Peek(ctx, key)
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		return "-"
	case err != nil:
		return err.Error()
	}
	left := e.ExpiresAt.Time().Sub(store.Now())
	return fmt.Sprintf("alive, %.1fs left", left.Seconds())
}

// VirtualTime lives through 100 days at once.
func VirtualTime(ctx context.Context, d driver.Driver[Note]) error {
	const day = 24 * time.Hour
	policy := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}
	birth := time.Now().Truncate(time.Second)
	now := birth
	store, err := slidingttl.New(d, policy, &slidingttl.Options[Note]{
		Now:    func() time.Time { return now },
		Strict: true, // a read waits for its touch to the end, so that now stands still meanwhile
	})
	if err != nil {
		return err
	}
	defer store.Close(ctx)

	fmt.Printf("\nThe same with 30 days of grace, 90 days of life and 3 days of slack, on virtual time:\n\n")
	people := []struct {
		key   string
		about string
		reads func(day int) int
		died  int
	}{
		{key: "nobody's", about: "never read", reads: func(int) int { return 0 }},
		{key: "ann's", about: "read on day 20, then never", reads: on(func(d int) bool { return d == 20 })},
		{key: "bob's", about: "read once a week", reads: on(func(d int) bool { return d%7 == 0 })},
		{key: "everybody's", about: "read ten times a day", reads: func(int) int { return 10 }},
	}
	for _, p := range people {
		if err := store.Upsert(ctx, p.key, something); err != nil {
			return err
		}
	}
	reads := 0
	for dayNo := 1; dayNo <= 100; dayNo++ {
		now = birth.Add(time.Duration(dayNo) * day)
		for i := range people {
			p := &people[i]
			if p.died != 0 {
				continue
			}
			_, err := store.Peek(ctx, p.key)
			for range p.reads(dayNo) {
				if _, err = store.Get(ctx, p.key); err == nil {
					reads++
				}
			}
			switch {
			case errors.Is(err, slidingttl.ErrNotFound):
				p.died = dayNo
			case err != nil:
				return err
			}
		}
	}
	for _, p := range people {
		fmt.Printf("  %-12s %-28s gone on day %d\n", p.key, p.about, p.died)
	}
	fmt.Printf("\n%d reads of live records, %d touches written.\n", reads, store.Stats().Touched)
	return nil
}

// on is one read on the days that f picks.
func on(f func(day int) bool) func(int) int {
	return func(day int) int {
		if f(day) {
			return 1
		}
		return 0
	}
}
