package upkeep_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// A Found that panics ends Erase.
func TestFoundThatPanics(t *testing.T) {
	f := open(t)
	for i := range 400 {
		f.Add(fmt.Sprint("user:", i), -time.Hour, 20*day)
	}
	_, err := upkeep.Erase(t.Context(), f, &upkeep.EraseOptions{
		WriteOptions: upkeep.WriteOptions{Options: upkeep.Options{Page: 5, Prefix: "user:"}, Apply: true},
		Found:        func([]string) error { panic("boom") },
	})
	if err == nil {
		t.Error("no error")
	}
}

// halves is a store of two segments. The page of a comes when the first of b waits to be handed over,
// and the second of b while Bury is called.
type halves struct {
	*retaining
	first, burying, second chan struct{}
}

func (halves) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"a", "b"}, nil
}

func (s halves) Scan(_ context.Context, from driver.Cursor, _ int) (p driver.Page, err error) {
	if from == "b" {
		p.Next = "b2"
	}
	switch {
	case s.first == nil: // in no order
	case from == "a":
		<-s.first
	case from == "b2":
		close(s.first)
		<-s.burying
		defer close(s.second)
	}
	for _, r := range s.More {
		if strings.HasPrefix(r.Key, string(from)+"-") {
			p.Records = append(p.Records, r)
		}
	}
	return p, nil
}

// What a Bury that panicked was given is handed over by the harvest that goes on from its checkpoint.
func TestBuryThatPanics(t *testing.T) { synctest.Test(t, testBuryThatPanics) }

func testBuryThatPanics(t *testing.T) {
	r := &retaining{Dead: walktest.Dead{Store: open(t)}}
	for i := range 170 {
		r.bury(fmt.Sprintf("%c-%d", 'a'+i/120, i), 40*day, 10*day)
	}
	s := halves{r, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	var g graves
	var at *upkeep.Checkpoint
	o := &upkeep.HarvestOptions{Batch: 1}
	o.Segments = 2
	o.Save = func(c upkeep.Checkpoint) error { at = &c; return nil }
	o.Bury = func(context.Context, []driver.Dead) error {
		close(s.burying)
		<-s.second
		for range 1000 {
			runtime.Gosched() // the other segment waits for what it had waiting to be handed over
		}
		panic("boom")
	}
	if _, err := upkeep.Harvest(t.Context(), s, policy, o); err == nil {
		t.Error("no error")
	}
	s.first = nil
	o.Bury, o.Resume = g.Bury, at
	if report, err := upkeep.Harvest(t.Context(), s, policy, o); err != nil || len(g.dead) != 170 {
		t.Errorf("%v: %d of 170 dead records were handed over in all; the report is\n%v", err, len(g.dead), report)
	}
}

// refusing refuses one key.
type refusing struct {
	upkeep.Store
	key string
}

func (f *refusing) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	if key == f.key {
		return 0, &driver.InvalidError{Field: "x", Value: "y", Rule: "z"}
	}
	return f.Store.Touch(ctx, key, was, next, now)
}

// A record whose failure could not be told is pending, and counted once, by the run that goes on.
func TestFailedThatPanics(t *testing.T) {
	f := open(t)
	for i := range 10 {
		f.Add(fmt.Sprint("k", i), 0, 0)
	}
	d := &refusing{f, "k3"}
	var at *upkeep.Checkpoint
	o := &upkeep.AdoptOptions{}
	o.Apply = true
	o.Save = func(c upkeep.Checkpoint) error { at = &c; return nil }
	o.Failed = func(string, error) { panic("boom") }
	if _, err := upkeep.Adopt(t.Context(), d, policy, o); err == nil {
		t.Fatal("no error")
	}
	o.Failed, o.Resume, d.key = nil, at, ""
	r, err := upkeep.Adopt(t.Context(), d, policy, o)
	if err != nil || r.Failed+r.Counts["adopted"] != r.Records {
		t.Errorf("%v: of %d records %d were adopted, and %d failed and were left as they are", err, r.Records, r.Counts["adopted"], r.Failed)
	}
}
