package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// retaining is a store that still holds its dead. They are in its last page.
type retaining struct {
	walktest.Dead
	raw func(key string) (driver.Raw, error) // nil: as the scan returned it
}

func (r *retaining) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if r.raw != nil {
		if raw, err := r.raw(key); err != nil || raw.Value != nil {
			return raw, err
		}
	}
	for _, s := range r.More {
		if s.Key == key {
			return driver.Raw{Meta: s.Meta, Format: "json", Value: []byte(`"v"`)}, nil
		}
	}
	return r.Dead.Raw(ctx, key)
}

// bury adds a record that was created and expired so long ago.
func (r *retaining) bury(key string, created, expired time.Duration) {
	l := driver.Life{CreatedAt: r.Began.Add(-created), ExpiresAt: r.Began.Add(-expired)}
	r.More = append(r.More, driver.Scanned{Key: key, Meta: driver.Meta{Life: l, Version: 1}})
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
	f.Add("alive", -day, 20*day)
	f.Add("immortal", 0, 0)
	f.Add("past its cap", -100*day, 10*day)
	r := &retaining{Dead: walktest.Dead{Store: f}}
	r.bury("idle", 40*day, 10*day)
	r.bury("aged", 95*day, 5*day)
	r.bury("just now", 40*day, time.Minute)
	r.bury("earlier", 80*day, 50*day)
	r.bury("removed", 40*day, 10*day)
	r.bury("overwritten", 40*day, 10*day)
	r.bury("touched", 40*day, 10*day)
	r.More = append(r.More, driver.Scanned{Key: "bad", Problem: &driver.InvalidError{Field: "ttl", Rule: "must be a number"}})
	r.raw = func(key string) (raw driver.Raw, err error) {
		switch key {
		case "removed":
			return raw, driver.ErrNotFound
		case "overwritten":
			raw.Value, raw.Life = []byte("1"), driver.Life{CreatedAt: f.Began.Add(-time.Minute), ExpiresAt: f.Began.Add(day)}
		case "touched": // by a clock that was behind
			raw.Value, raw.Life = []byte("1"), driver.Life{CreatedAt: f.Began.Add(-40 * day), ExpiresAt: f.Began.Add(day)}
		}
		return raw, nil
	}
	o := &upkeep.HarvestOptions{Since: f.Began.Add(-40 * day)}
	o.Segments = 1
	report, err := upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if report.Counts["idle"] != 4 || report.Counts["age"] != 1 || report.Counts["earlier"] != 1 || report.Counts["past_cap"] != 1 || report.Applied || !report.Done {
		t.Errorf("a dry run:\n%v", report)
	}
	var g graves
	o.Bury = g.Bury
	report, err = upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if want := []string{"aged", "idle"}; !slices.Equal(g.keys(), want) {
		t.Errorf("buried %q, want %q", g.keys(), want)
	}
	for key, at := range map[string]time.Duration{"aged": 5 * day, "idle": 10 * day} {
		if d := g.dead[key][0]; d.At != f.Began.Add(-at) || string(d.Value) != `"v"` || d.CreatedAt == 0 || d.Deleted {
			t.Errorf("%s is buried as %+v", key, d)
		}
	}
	if report.Counts["idle"] != 1 || report.Counts["age"] != 1 || report.Counts["past_cap"] != 1 || report.Counts["lost"] != 2 || report.Counts["alive"] != 4 || report.Counts["malformed"] != 1 || report.Counts["earlier"] != 1 || !report.Applied {
		t.Errorf("the report is\n%v", report)
	}
	if grace := 10 * time.Minute; report.Until > f.Began.Add(time.Minute-grace) || report.Until < f.Began.Add(-grace) {
		t.Errorf("until %v, at %v", report.Until, f.Began)
	}
	for _, want := range []string{"harvested: dead of idleness", "left: past the cap", "lost: gone before they were read", "ttl must be a number"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("%q is not in\n%v", want, report)
		}
	}
	// The next one, from where this one ended, has nothing to do.
	o.Since = report.Until
	again, err := upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if again.Counts["idle"] != 0 || again.Counts["age"] != 0 || g.calls != 1 || again.Until < report.Until {
		t.Errorf("the next harvest:\n%v", again)
	}
}

// A place is saved only when what was met until there is buried: a harvest that ended at
// any moment and is gone on with buries all, and tells the same of each every time.
func TestHarvestResumed(t *testing.T) {
	// One segment is interrupted at the same places every time. Of two, one may get far before
	// the other has told of its first page.
	t.Run("1 segment", func(t *testing.T) { testHarvestResumed(t, 1, 3) })
	t.Run("2 segments", func(t *testing.T) { testHarvestResumed(t, 2, 2) })
}

func testHarvestResumed(t *testing.T, segments, fewest int) {
	const n = 300
	r := openRetaining(t)
	for i := range n {
		r.Add(fmt.Sprint("alive-", i), -day, 20*day)
		r.Add(fmt.Sprint("aged-", i), -(91*day + time.Duration(i)*time.Hour), -time.Hour)
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
		o := &upkeep.HarvestOptions{Batch: 1, Bury: g.Bury} // 100 records wait
		o.Segments, o.Page, o.Resume = segments, 7, at
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Progress = func(upkeep.Progress) {
			if pages++; pages == 1 {
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
		if done && report.Counts["age"] != n {
			t.Errorf("the report is\n%v", report)
		}
	}
	if len(g.dead) != n || runs < fewest {
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

// If the dead cannot be buried, the harvest ends with the error, and no position is saved
// behind them.
func TestHarvestFails(t *testing.T) {
	f := open(t)
	r := &retaining{Dead: walktest.Dead{Store: f}}
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
	if !errors.Is(err, refused) || report.Done || report.Counts["idle"] != 0 || saved.Done() {
		t.Errorf("%v, %+v\n%v", err, saved, report)
	}
	for field, o := range map[string]upkeep.HarvestOptions{"Grace": {Grace: -1}, "Grace ": {Grace: 2 * time.Minute}, "Grace  ": {Options: upkeep.Options{MaxSkew: 5 * time.Minute}}, "Grace   ": {Options: upkeep.Options{MaxSkew: math.MaxInt64}}, "Batch": {Batch: -1}, "BatchBytes": {BatchBytes: -1}, "PastCap": {PastCap: true}} {
		var invalid *driver.InvalidError
		if _, err := upkeep.Harvest(t.Context(), unable{r, r}, policy, &o); !errors.As(err, &invalid) || invalid.Field != "HarvestOptions."+strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// twoParts is a store of two parts. Part a has 100 dead records, which are handed over at once, and
// is read when part b is ahead. Part b has a dead record in its first page, and a live one in its
// second, which comes when the dead are handed over.
type twoParts struct {
	*fixture
	ahead   chan struct{} // closed when b's first page has been visited
	burying chan struct{} // closed when the dead are handed over
}

func (p *twoParts) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"a", "b"}, nil
}

func (p *twoParts) Scan(_ context.Context, c driver.Cursor, _ int) (page driver.Page, err error) {
	n, meta := 1, p.died()
	switch c {
	case "a":
		<-p.ahead
		n = 100
	case "b":
		page.Next = "b, then"
	default:
		close(p.ahead)
		<-p.burying
		meta.ExpiresAt = p.Began.Add(day)
	}
	for i := range n {
		page.Records = append(page.Records, driver.Scanned{Key: fmt.Sprint(c, i), Meta: meta})
	}
	return page, nil
}

func (p *twoParts) Raw(context.Context, string) (driver.Raw, error) {
	return driver.Raw{Meta: p.died(), Format: "json", Value: []byte(`"v"`)}, nil
}

func (p *twoParts) died() driver.Meta {
	return driver.Meta{Life: driver.Life{CreatedAt: p.Began.Add(-50 * day), ExpiresAt: p.Began.Add(-day)}, Version: 1}
}

// What one part of the store has found waits for all. If another part fails to hand it over, no
// position is saved behind it.
func TestHarvestFailsForAll(t *testing.T) {
	p := &twoParts{openRetaining(t), make(chan struct{}), make(chan struct{})}
	visited := make(chan struct{}) // closed when b's second page is visited
	visit := sync.OnceFunc(func() { close(visited) })
	refused := &driver.InvalidError{Field: "batch", Rule: "must be another"} // which no other attempt changes
	var saved upkeep.Checkpoint
	o := &upkeep.HarvestOptions{Batch: 1, Bury: func(context.Context, []driver.Dead) error {
		close(p.burying)
		<-visited
		return refused
	}}
	o.Segments = 2
	o.Now = func() time.Time {
		select {
		case <-p.burying:
			visit()
		default:
		}
		return p.Now()
	}
	o.Save = func(c upkeep.Checkpoint) error {
		saved = c
		return nil
	}
	report, err := upkeep.Harvest(t.Context(), p, policy, o)
	if !errors.Is(err, refused) || report.Done || report.Records != 0 || !slices.Equal(saved.Segments, []driver.Cursor{"a", "b"}) {
		t.Errorf("%v; saved is %q\n%v", err, saved.Segments, report)
	}
}

// unable is a store that is only read.
type unable struct {
	driver.Scanner
	driver.RawReader
}

// openRetaining is a store in memory that holds its dead for a year.
func openRetaining(t *testing.T) *fixture {
	t.Helper()
	return walktest.Open(t, &memory.Options[string]{Retain: 365 * day})
}

// What is alive by its stored expiry is no death, whatever policy a harvest is given: it is
// left and counted, or its life is ended first.
func TestHarvestPastCap(t *testing.T) {
	short := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day}
	r := openRetaining(t)
	r.Add("old", -40*day, 10*day)
	r.Add("young", -10*day, 10*day)
	r.Add("for ever", -40*day, 0)
	r.Add("foreign", 0, 10*day)
	r.Add("dead", -50*day, -day)
	var g graves
	o := &upkeep.HarvestOptions{Bury: g.Bury}
	report, err := upkeep.Harvest(t.Context(), r, short, o)
	ok(t, err)
	if want := []string{"dead"}; !slices.Equal(g.keys(), want) || report.Counts["past_cap"] != 2 || report.Counts["alive"] != 2 || report.Counts["ended"] != 0 {
		t.Errorf("buried %q\n%v", g.keys(), report)
	}
	before := metaOf(r, "old")
	dry, err := upkeep.Harvest(t.Context(), r, short, &upkeep.HarvestOptions{PastCap: true})
	ok(t, err)
	if dry.Counts["ended"] != 1 || dry.Counts["past_cap"] != 1 || metaOf(r, "old") != before {
		t.Errorf("a dry run:\n%v", dry)
	}
	o.PastCap, o.Since = true, report.Until
	report, err = upkeep.Harvest(t.Context(), r, short, o)
	ok(t, err)
	ended := metaOf(r, "old")
	if now := driver.Floor(r.Now()); report.Counts["ended"] != 1 || report.Counts["past_cap"] != 1 || ended.ExpiresAt > now || ended.ExpiresAt < now.Add(-time.Minute) || len(g.dead) != 1 {
		t.Errorf("%+v\n%v", ended, report)
	}
	o.Since = report.Until
	o.Now = func() time.Time { return r.Now().Add(time.Hour) }
	report, err = upkeep.Harvest(t.Context(), r, short, o)
	ok(t, err)
	if d := g.dead["old"]; len(d) != 1 || d[0].At != ended.ExpiresAt || report.Counts["age"] != 1 || report.Counts["earlier"] != 1 || len(g.dead) != 2 {
		t.Errorf("then: %+v\n%v", d, report)
	}
	if metaOf(r, "young").ExpiresAt != r.Began.Add(10*day) {
		t.Error("what is young has changed")
	}
	// A store that would not hold it for long enough loses nothing.
	f := open(t)
	f.Add("old", -40*day, 10*day)
	report, err = upkeep.Harvest(t.Context(), f, short, &upkeep.HarvestOptions{PastCap: true, Bury: g.Bury})
	ok(t, err)
	if report.Counts["past_cap"] != 1 || report.Counts["ended"] != 0 || metaOf(f, "old").ExpiresAt != f.Began.Add(10*day) {
		t.Errorf("not retained:\n%v", report)
	}
}

// Another client writes while a life is ended: a record that is no longer past its cap is left.
func TestHarvestPastCapRaces(t *testing.T) {
	short := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day}
	for name, c := range map[string]struct {
		meddle func(f *fixture, was driver.Meta)
		ended  int64
	}{
		"touched": {func(f *fixture, was driver.Meta) {
			_, err := f.Touch(f.T.Context(), "old", was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + 1}, f.Began)
			ok(f.T, err)
		}, 1},
		"born again": {func(f *fixture, was driver.Meta) {
			ok(f.T, f.Delete(f.T.Context(), "old"))
			f.Add("old", -day, 6*day)
		}, 0},
		"deleted": {func(f *fixture, was driver.Meta) { ok(f.T, f.Delete(f.T.Context(), "old")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRetaining(t)
			r.Add("old", -40*day, 10*day)
			m := &meddled{fixture: r, meddle: func() { c.meddle(r, metaOf(r, "old")) }}
			report, err := upkeep.Harvest(t.Context(), m, short, &upkeep.HarvestOptions{PastCap: true, Bury: new(graves).Bury})
			ok(t, err)
			if report.Counts["ended"] != c.ended || report.Counts["alive"] != 1-c.ended {
				t.Errorf("the report is\n%v", report)
			}
			if e, err := r.Get(t.Context(), "old"); c.ended == 0 && err == nil && e.ExpiresAt != r.Began.Add(6*day) {
				t.Errorf("it is %+v", e)
			}
		})
	}
}

// meddled has something happen before its first touch.
type meddled struct {
	*fixture
	meddle func()
	once   sync.Once
}

func (m *meddled) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	m.once.Do(m.meddle)
	return m.fixture.Touch(ctx, key, was, life, now)
}

// scansSlowly is a store whose pages take a second each.
type scansSlowly struct{ *fixture }

func (s scansSlowly) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.Sleep(ctx, time.Second); err != nil {
		return driver.Page{}, err
	}
	return s.fixture.Scan(ctx, from, limit)
}

// A harvest that is always ended after a while, before it is done, comes to its end all the same.
func TestHarvestEndedRegularly(t *testing.T) {
	for _, after := range []time.Duration{15 * time.Second, 25 * time.Second, 45 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := scansSlowly{openRetaining(t)}
			const n = 200
			for i := range n {
				r.Add(fmt.Sprint("dead-", i), -40*day, -day)
			}
			var g graves
			o := &upkeep.HarvestOptions{Bury: g.Bury}
			o.Segments, o.Page = 2, 1
			runs, err := 0, errors.New("not yet")
			for ; err != nil && runs < 2*n/int(after/time.Second); runs++ {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				o.Save = func(c upkeep.Checkpoint) error {
					o.Resume = &c
					return nil
				}
				_, err = upkeep.Harvest(ctx, r, policy, o)
				cancel()
			}
			if err != nil || len(g.dead) != n {
				t.Errorf("ended after %v each, %d runs: %v, %d of %d handed over", after, runs, err, len(g.dead), n)
			}
		})
	}
}

// Long values are handed over before more are read: what is held is bounded in bytes.
func TestHarvestBytes(t *testing.T) {
	const long = 1000
	r := &retaining{Dead: walktest.Dead{Store: openRetaining(t)}}
	for i := range 200 {
		r.Add(fmt.Sprint("dead-", i), -40*day, -day)
	}
	r.raw = func(key string) (driver.Raw, error) {
		raw, err := r.Dead.Raw(t.Context(), key)
		raw.Value = make([]byte, long)
		return raw, err
	}
	var g graves
	o := &upkeep.HarvestOptions{BatchBytes: 40 * long, Bury: func(ctx context.Context, dead []driver.Dead) error {
		if n := len(dead); n > 40+16 {
			t.Errorf("%d values of %d bytes at once", n, long)
		}
		return g.Bury(ctx, dead)
	}}
	o.Segments = 4
	report, err := upkeep.Harvest(t.Context(), r, policy, o)
	ok(t, err)
	if len(g.dead) != 200 || report.Counts["idle"] != 200 || g.calls < 5 {
		t.Errorf("%d buried in %d calls\n%v", len(g.dead), g.calls, report)
	}
}

// A created_at in seconds is no age: no life is ended by it, and none is called past its cap.
func TestHarvestImplausible(t *testing.T) {
	short := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day}
	r := openRetaining(t)
	r.Add("old", -40*day, 10*day)
	old := metaOf(r, "old")
	seconds := driver.Life{CreatedAt: r.Began.Add(-day) / 1000, ExpiresAt: r.Began.Add(10 * day)}
	_, err := r.Insert(t.Context(), "seconds", "v", seconds, r.Began)
	ok(t, err)
	// What is dead by its expiry is handed over all the same, or its store would lose it.
	_, err = r.Insert(t.Context(), "dead", "v", driver.Life{CreatedAt: seconds.CreatedAt, ExpiresAt: r.Began.Add(-day)}, r.Began.Add(-2*day))
	ok(t, err)
	var g graves
	report, err := upkeep.Harvest(t.Context(), r, short, &upkeep.HarvestOptions{PastCap: true, Bury: g.Bury})
	ok(t, err)
	if metaOf(r, "seconds").Life != seconds || report.Counts["implausible"] != 1 || report.Counts["ended"] != 1 || metaOf(r, "old") == old {
		t.Errorf("%+v\n%v", metaOf(r, "seconds"), report)
	}
	if want := []string{"dead"}; !slices.Equal(g.keys(), want) {
		t.Errorf("buried %q", g.keys())
	}
}
