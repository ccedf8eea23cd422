package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// retaining is a store that still holds its dead. They are in its last page.
type retaining struct {
	dead
	raw func(key string) (driver.Raw, error) // nil: as the scan told it
}

func (r *retaining) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if r.raw != nil {
		if raw, err := r.raw(key); err != nil || raw.Value != nil {
			return raw, err
		}
	}
	for _, s := range r.more {
		if s.Key == key {
			return driver.Raw{Meta: s.Meta, Format: "json", Value: []byte(`"v"`)}, nil
		}
	}
	return r.dead.Raw(ctx, key)
}

// bury adds a record that was created and expired so long ago.
func (r *retaining) bury(key string, created, expired time.Duration) {
	l := driver.Life{CreatedAt: r.now.Add(-created), ExpiresAt: r.now.Add(-expired)}
	r.more = append(r.more, driver.Scanned{Key: key, Meta: driver.Meta{Life: l, Version: 1}})
}

// graves keeps what it is handed.
type graves struct {
	mu    sync.Mutex // guards the rest
	dead  map[string][]driver.Dead
	calls int
}

func (g *graves) Bury(_ context.Context, dead []driver.Dead) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.dead == nil {
		g.dead = make(map[string][]driver.Dead)
	}
	for _, d := range dead {
		g.dead[d.Key] = append(g.dead[d.Key], d)
	}
	return nil
}

func (g *graves) keys() (keys []string) {
	for key := range g.dead {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func TestHarvest(t *testing.T) {
	f := open(t)
	f.add("alive", -day, 20*day)
	f.add("immortal", 0, 0)
	f.add("past its cap", -100*day, 10*day)
	r := &retaining{dead: dead{f, nil}}
	r.bury("idle", 40*day, 10*day)
	r.bury("aged", 95*day, 5*day)
	r.bury("just now", 40*day, time.Minute)
	r.bury("earlier", 80*day, 50*day)
	r.bury("removed", 40*day, 10*day)
	r.bury("overwritten", 40*day, 10*day)
	r.bury("touched", 40*day, 10*day)
	r.more = append(r.more, driver.Scanned{Key: "bad", Problem: &driver.InvalidError{Field: "ttl", Rule: "must be a number"}})
	r.raw = func(key string) (raw driver.Raw, err error) {
		switch key {
		case "removed":
			return raw, driver.ErrNotFound
		case "overwritten":
			raw.Value, raw.Life = []byte("1"), driver.Life{CreatedAt: f.now.Add(-time.Minute), ExpiresAt: f.now.Add(day)}
		case "touched": // by a clock that was behind
			raw.Value, raw.Life = []byte("1"), driver.Life{CreatedAt: f.now.Add(-40 * day), ExpiresAt: f.now.Add(day)}
		}
		return raw, nil
	}
	o := &upkeep.HarvestOptions{Since: f.now.Add(-40 * day)}
	o.Segments = 1
	report, err := upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if report.Idle != 4 || report.Age != 2 || report.Earlier != 1 || report.Applied || !report.Done {
		t.Errorf("a dry run:\n%v", report)
	}
	var g graves
	o.Bury = g.Bury
	report, err = upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if want := []string{"aged", "idle", "past its cap"}; !slices.Equal(g.keys(), want) {
		t.Errorf("buried %q, want %q", g.keys(), want)
	}
	for key, at := range map[string]time.Duration{"aged": 5 * day, "idle": 10 * day, "past its cap": 10 * day} {
		if d := g.dead[key][0]; d.At != f.now.Add(-at) || string(d.Value) != `"v"` || d.CreatedAt == 0 || d.Deleted {
			t.Errorf("%s is buried as %+v", key, d)
		}
	}
	if report.Idle != 1 || report.Age != 2 || report.Lost != 2 || report.Alive != 4 || report.Malformed != 1 || report.Earlier != 1 || !report.Applied {
		t.Errorf("the report is\n%v", report)
	}
	if grace := 10 * time.Minute; report.Until > f.now.Add(time.Minute-grace) || report.Until < f.now.Add(-grace) {
		t.Errorf("until %v, at %v", report.Until, f.now)
	}
	for _, want := range []string{"harvested: dead of idleness", "lost: gone before they were read", "ttl must be a number"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("%q is not in\n%v", want, report)
		}
	}
	// The next one, from where this one ended, has nothing to do.
	o.Since = report.Until
	again, err := upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if again.Idle != 0 || again.Age != 0 || g.calls != 1 || again.Until < report.Until {
		t.Errorf("the next harvest:\n%v", again)
	}
}

// A place is saved only when what was met until there is buried: a harvest that ended at
// any moment and is gone on with buries all, and tells the same of each every time.
func TestHarvestResumed(t *testing.T) {
	const n = 300
	f := open(t)
	r := &retaining{dead: dead{f, nil}}
	for i := range n {
		f.add(fmt.Sprint("alive-", i), -day, 20*day)
		f.add(fmt.Sprint("aged-", i), -(91*day + time.Duration(i)*time.Hour), day)
	}
	var g graves
	var at *upkeep.Checkpoint
	var until driver.Instant
	broken := errors.New("broken")
	runs := 0
	for done := false; !done; runs++ {
		if runs > n {
			t.Fatal("it does not get on")
		}
		pages := 0
		o := &upkeep.HarvestOptions{Batch: 20, Bury: g.Bury}
		o.Segments, o.Page, o.Resume = 2, 7, at
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Progress = func(upkeep.Progress) {
			if pages++; pages == 2 {
				cancel(broken) // some are held, and not buried
			}
		}
		o.Save = func(c upkeep.Checkpoint) error {
			at = &c
			return nil
		}
		report, err := upkeep.Harvest(ctx, r, policy, o)
		cancel(nil)
		if done = err == nil; !done && !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if until == 0 {
			until = report.Until
		}
		if report.Until != until {
			t.Errorf("until %v, at first %v", report.Until, until)
		}
		if done && report.Age != n {
			t.Errorf("the report is\n%v", report)
		}
	}
	if len(g.dead) != n || runs < 5 {
		t.Errorf("%d of %d are buried, in %d runs", len(g.dead), n, runs)
	}
	for key, lives := range g.dead {
		for _, d := range lives {
			if d.At != lives[0].At {
				t.Errorf("%s died at %v and at %v", key, d.At, lives[0].At)
			}
		}
	}
}

// Where the dead cannot be buried the harvest ends with the error, and no place is saved
// behind them.
func TestHarvestFails(t *testing.T) {
	f := open(t)
	r := &retaining{dead: dead{f, nil}}
	r.bury("idle", 40*day, 10*day)
	var saved upkeep.Checkpoint
	refused := &driver.InvalidError{Field: "batch", Rule: "must be another"} // which no other attempt changes
	o := &upkeep.HarvestOptions{Bury: func(context.Context, []driver.Dead) error { return refused }}
	o.Segments = 1
	o.Save = func(c upkeep.Checkpoint) error {
		saved = c
		return nil
	}
	report, err := upkeep.Harvest(t.Context(), r, policy, o)
	if !errors.Is(err, refused) || report.Done || report.Idle != 0 || saved.Done() {
		t.Errorf("%v, %+v\n%v", err, saved, report)
	}
	for field, o := range map[string]upkeep.HarvestOptions{"Grace": {Grace: -1}, "Batch": {Batch: -1}, "Readers": {Readers: -1}} {
		var invalid *driver.InvalidError
		if _, err := upkeep.Harvest(t.Context(), r, policy, &o); !errors.As(err, &invalid) || invalid.Field != "HarvestOptions."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
