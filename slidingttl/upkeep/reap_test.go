package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// late is a store that deletes nothing by itself, and has no Remove.
type late struct {
	driver.Driver[string]
	driver.Scanner
}

func TestReap(t *testing.T) {
	for name, bare := range map[string]bool{"by a driver that removes": false, "by touches": true} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			f.Add("alive", -day, 20*day)
			f.Add("foreign", 0, 0)
			f.Add("past its cap", -100*day, 10*day)
			f.Add("past its cap, for ever", -100*day, 0)
			f.Add("past its cap just now", -90*day-time.Minute, 10*day)
			var d upkeep.Store = f
			if bare {
				d = late{f, f}
			}
			dry, err := upkeep.Reap(t.Context(), d, policy, nil)
			ok(t, err)
			if dry.Counts["past_cap"] != 2 || dry.Applied || len(keysOf(f)) != 5 {
				t.Fatalf("a dry run:\n%v", dry)
			}
			o := &upkeep.ReapOptions{WriteOptions: upkeep.WriteOptions{Apply: true}}
			r, err := upkeep.Reap(t.Context(), d, policy, o)
			ok(t, err)
			if r.Counts["past_cap"] != 2 || r.Counts["alive"] != 3 {
				t.Errorf("the report is\n%v", r)
			}
			for _, key := range []string{"past its cap", "past its cap, for ever"} {
				if e, err := f.Get(t.Context(), key); err == nil && e.Alive(f.Began) {
					t.Errorf("%q is still there", key)
				}
			}
			for _, key := range []string{"alive", "foreign", "past its cap just now"} {
				metaOf(f, key)
			}
		})
	}
}

// Records that the store still holds though they have expired go on request, and only if
// they are still the same.
func TestReapExpired(t *testing.T) {
	f := open(t)
	expired := driver.Life{CreatedAt: f.Began.Add(-5 * day), ExpiresAt: f.Began.Add(-2 * day)}
	s := walktest.Dead{Store: f}
	for i := range 3 {
		s.More = append(s.More, driver.Scanned{Key: fmt.Sprint("dead-", i), Meta: driver.Meta{Life: expired, Version: 1}})
	}
	s.More = append(s.More, driver.Scanned{Key: "bad", Problem: &driver.InvalidError{Field: "ttl", Rule: "must be a number"}})
	removed := make(map[string]driver.Instant)
	r := remover{s, func(key string, was driver.Meta, now driver.Instant) error {
		if key == "dead-1" { // written again meanwhile
			return &driver.ConflictError{Found: driver.Meta{Life: driver.Life{CreatedAt: f.Began, ExpiresAt: f.Began.Add(day)}, Version: 2}}
		}
		if !was.Alive(now) {
			return driver.ErrNotFound
		}
		removed[key] = now
		return nil
	}}
	o := &upkeep.ReapOptions{WriteOptions: upkeep.WriteOptions{Apply: true}}
	o.Segments, o.Writers = 1, 1
	report, err := upkeep.Reap(t.Context(), r, policy, o)
	ok(t, err)
	if report.Counts["left"] != 3 || report.Counts["malformed"] != 1 || len(removed) != 0 {
		t.Errorf("what the store removes by itself:\n%v", report)
	}
	o.Expired = true
	report, err = upkeep.Reap(t.Context(), r, policy, o)
	ok(t, err)
	if report.Counts["expired"] != 2 || report.Counts["alive"] != 1 || len(removed) != 2 || removed["dead-0"] != expired.ExpiresAt-1 {
		t.Errorf("removed at %v:\n%v", removed, report)
	}
}

// A retained record stays, whatever it died of, until its retention ends or ReapOptions.Retained is
// set.
func TestReapRetained(t *testing.T) {
	f := open(t)
	at := func(d time.Duration) driver.Instant { return f.Began.Add(d) }
	s := walktest.Dead{Store: f, More: []driver.Scanned{
		{Key: "expired", Meta: driver.Meta{Life: driver.Life{CreatedAt: at(-5 * day), ExpiresAt: at(-2 * day)}}, HeldUntil: at(day)},
		{Key: "expired, and to go", Meta: driver.Meta{Life: driver.Life{CreatedAt: at(-9 * day), ExpiresAt: at(-4 * day)}}, HeldUntil: at(-day)},
		{Key: "past its cap", Meta: driver.Meta{Life: driver.Life{CreatedAt: at(-92 * day), ExpiresAt: at(5 * day)}}, HeldUntil: at(8 * day)},
		{Key: "long past its cap", Meta: driver.Meta{Life: driver.Life{CreatedAt: at(-95 * day), ExpiresAt: at(5 * day)}}, HeldUntil: at(8 * day)},
		{Key: "alive", Meta: driver.Meta{Life: driver.Life{CreatedAt: at(-day), ExpiresAt: at(day)}}, HeldUntil: at(4 * day)},
	}}
	for _, c := range []struct {
		opts    upkeep.ReapOptions
		removed []string
		counts  map[string]int64
	}{
		{upkeep.ReapOptions{}, []string{"long past its cap"}, map[string]int64{"past_cap": 1, "retained": 2, "left": 1, "alive": 1}},
		{upkeep.ReapOptions{Expired: true}, []string{"expired, and to go"}, map[string]int64{"expired": 1, "retained": 2, "left": 1, "alive": 1}},
		{upkeep.ReapOptions{PastCap: true, Expired: true}, []string{"expired, and to go", "long past its cap"}, map[string]int64{"past_cap": 1, "expired": 1, "retained": 2, "alive": 1}},
		{upkeep.ReapOptions{PastCap: true, Retained: true}, []string{"expired", "long past its cap", "past its cap"}, map[string]int64{"past_cap": 2, "expired": 1, "left": 1, "alive": 1}},
	} {
		var removed []string
		r := remover{s, func(key string, _ driver.Meta, _ driver.Instant) error {
			removed = append(removed, key)
			return nil
		}}
		c.opts.Apply, c.opts.Segments, c.opts.Writers = true, 1, 1
		report, err := upkeep.Reap(t.Context(), r, policy, &c.opts)
		ok(t, err)
		slices.Sort(removed)
		c.counts["write_units"] = int64(len(c.removed))
		maps.DeleteFunc(report.Counts, func(_ string, n int64) bool { return n == 0 })
		if !slices.Equal(removed, c.removed) || !report.Applied || report.Reasons != nil || !maps.Equal(report.Counts, c.counts) {
			t.Errorf("%+v removed %q; want %q and %v\n%+v", c.opts, removed, c.removed, c.counts, report)
		}
	}
}

type remover struct {
	walktest.Dead
	remove func(key string, was driver.Meta, now driver.Instant) error
}

func (r remover) Remove(_ context.Context, key string, was driver.Meta, now driver.Instant) error {
	return r.remove(key, was, now)
}

// mending is a scanner of malformed records that can mend some.
type mending struct {
	walktest.Dead
	mend func(key string, apply bool) (string, error)
}

func (m mending) Mend(_ context.Context, key string, apply bool) (string, error) {
	return m.mend(key, apply)
}

func TestMend(t *testing.T) {
	f := open(t)
	f.Add("well", -day, day)
	bad := &driver.InvalidError{Field: "ttl", Value: "1700000000000", Rule: "must be seconds"}
	s := walktest.Dead{Store: f}
	for _, key := range []string{"millis", "word", "gone", "mended", "raced", "locked"} {
		s.More = append(s.More, driver.Scanned{Key: key, Problem: bad})
	}
	o := &upkeep.MendOptions{}
	o.Segments = 1
	r, err := upkeep.Mend(t.Context(), s, o)
	ok(t, err)
	if r.Counts["left"] != 6 || r.Counts["well"] != 1 || r.Reasons["problems"]["ttl must be seconds"] != 6 {
		t.Errorf("by a driver that mends nothing:\n%v", r)
	}
	applied := 0
	m := mending{s, func(key string, apply bool) (string, error) {
		switch key {
		case "millis":
			if apply {
				applied++
			}
			return "ttl in milliseconds", nil
		case "word":
			return "", &driver.InvalidError{Field: "ttl", Value: "a word", Rule: "must be a number"}
		case "gone":
			return "", driver.ErrNotFound
		case "raced":
			return "", driver.ErrConflict
		case "locked":
			return "", fmt.Errorf("%w: %w", driver.ErrLocked, driver.ErrInvalid) // not tried again
		}
		return "", nil
	}}
	for _, o.Apply = range []bool{false, true} {
		r, err = upkeep.Mend(t.Context(), m, o)
		ok(t, err)
		if r.Counts["mended"] != 1 || r.Reasons["faults"]["ttl in milliseconds"] != 1 || r.Counts["well"] != 2 || r.Counts["vanished"] != 1 || r.Counts["lost_races"] != 1 || r.Counts["left"] != 2 {
			t.Errorf("apply %v:\n%v", o.Apply, r)
		}
		if text := r.String(); strings.Contains(text, "dry run") == o.Apply || !strings.Contains(text, "ttl in milliseconds") {
			t.Errorf("apply %v:\n%s", o.Apply, text)
		}
	}
	if applied != 1 {
		t.Errorf("%d records were mended", applied)
	}
	down := errors.New("down")
	m.mend = func(string, bool) (string, error) { return "", fmt.Errorf("%w: %w", driver.ErrInvalid, down) }
	if r, err = upkeep.Mend(t.Context(), m, o); err != nil || r.Counts["left"] != 6 {
		t.Errorf("%v\n%v", err, r)
	}
}

// restarting is a store whose scan begins anew at its second page, after a restart. Until then the answers to its removals
// are lost, and of some the effect too.
type restarting struct {
	*fixture
	up   bool
	lost map[string]bool // removals without effect
}

func (r *restarting) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"first"}, nil
}

func (r *restarting) Scan(ctx context.Context, from driver.Cursor, _ int) (page driver.Page, err error) {
	page.Restarted = from != "first"
	if r.up = page.Restarted; !r.up {
		page.Next = "second"
	}
	for _, key := range keysOf(r.fixture) {
		page.Records = append(page.Records, driver.Scanned{Key: key, Meta: metaOf(r.fixture, key)})
	}
	return page, nil
}

func (r *restarting) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	if !r.up && r.lost[key] {
		return fmt.Errorf("%w: down", driver.ErrAmbiguous)
	}
	if err := driver.Remove(ctx, r.Driver, key, was, now); r.up || err != nil {
		return err
	}
	return fmt.Errorf("%w: down", driver.ErrAmbiguous)
}

// TestReapRestarted: a record whose removal had no answer before the store restarted is counted once, whether the
// removal had landed or not.
func TestReapRestarted(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := open(t)
			f.Add("alive", -day, 20*day)
			f.Add("past its cap", -100*day, 10*day)
			o := &upkeep.ReapOptions{WriteOptions: upkeep.WriteOptions{Apply: true}}
			o.Segments = 1
			r, err := upkeep.Reap(t.Context(), &restarting{fixture: f, lost: map[string]bool{"past its cap": lost}}, policy, o)
			ok(t, err)
			if r.Counts["past_cap"] != 1 || r.Counts["past_cap"]+r.Counts["alive"]+r.Failed+r.Unsure+r.Counts["vanished"] != r.Records+r.Repeated || len(keysOf(f)) != 1 {
				t.Errorf("lost %v:\n%v", lost, r)
			}
		})
	}
}
