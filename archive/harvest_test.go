package archive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

type session struct {
	User string `json:"user"`
}

const day = 24 * time.Hour

// A life is found once, whatever policies it was harvested under: its day is that of its expiry.
// Live records are not archived, and stay.
func TestHarvestedUnderTwoPolicies(t *testing.T) {
	d, err := memory.New(&memory.Options[session]{Retain: 365 * day})
	ok(t, err)
	defer func() { ok(t, d.Close()) }()
	now := driver.Floor(d.Now())
	long := slidingttl.Policy{IdleGrace: 60 * day, MaxLifetime: 90 * day}
	short := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day}
	for i := range 20 {
		life := driver.Life{CreatedAt: now.Add(-50 * day), ExpiresAt: now.Add(-day)}
		if i >= 10 {
			life.ExpiresAt = now.Add(10 * day)
		}
		_, err := d.Insert(t.Context(), fmt.Sprint("key-", i), session{"ann"}, life, 1)
		ok(t, err)
	}
	b := newFake()
	for i, p := range []slidingttl.Policy{long, short} {
		w, err := archive.NewWriter(b, nil)
		ok(t, err)
		g := archive.Archiver{Writer: w, Source: "links", Policy: func(string) slidingttl.Policy { return p }}
		report, err := upkeep.Harvest(t.Context(), d, p, &upkeep.HarvestOptions{Bury: g.Archive})
		ok(t, err)
		if dead := [][2]int64{{10, 0}, {0, 10}}[i]; report.Counts["idle"] != dead[0] || report.Counts["age"] != dead[1] || report.Counts["alive"]+report.Counts["past_cap"] != 10 {
			t.Errorf("under %v:\n%v", p, report)
		}
	}
	for range 2 {
		if found := all(t, b); len(found) != 10 || found[0].ExpiredAt != now.Add(-day) {
			t.Errorf("%d records were found; want 10", len(found))
		}
		compact(t, b)
	}
	if s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || s.Rows != 10 || s.Days != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err := slidingttl.New(d, long, nil)
	ok(t, err)
	for i := range 10 {
		_, err := s.Get(t.Context(), fmt.Sprint("key-", 10+i))
		ok(t, err)
	}
	ok(t, s.Close(t.Context()))
}

// A harvest keeps its position in the archive. The next one takes what died since, also under
// another policy, and an interrupted one is resumed.
func TestHarvestKeepsItsPlace(t *testing.T) {
	d, err := memory.New(&memory.Options[session]{Retain: 365 * day})
	ok(t, err)
	defer func() { ok(t, d.Close()) }()
	now := driver.Floor(d.Now())
	die := func(name string, n int, ago time.Duration) {
		for i := range n {
			_, err := d.Insert(t.Context(), fmt.Sprint(name, i), session{"ann"}, driver.Life{CreatedAt: now.Add(-40 * day), ExpiresAt: now.Add(-ago)}, 1)
			ok(t, err)
		}
	}
	p := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day}
	b := newFake()
	harvest := func(ctx context.Context, store string, p slidingttl.Policy, o upkeep.HarvestOptions) (*upkeep.Report, error) {
		w, err := archive.NewWriter(b, nil)
		ok(t, err)
		g := archive.Archiver{Writer: w, Source: "links"}
		o.Bury = func(ctx context.Context, dead []driver.Dead) error {
			return g.Archive(context.WithoutCancel(ctx), dead)
		}
		o.Segments, o.Page, o.Batch = 1, 10, 1
		r, err := g.Harvest(ctx, store, d, p, &o)
		if through := g.Stats().Through; err == nil && !through.Equal(max(r.Since, r.Until).Time()) {
			t.Errorf("it has come to %v; want %v", through, max(r.Since, r.Until).Time())
		}
		return r, err
	}
	died := func(r *upkeep.Report) int64 { return r.Counts["idle"] + r.Counts["age"] }

	die("first-", 300, day)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := harvest(ctx, "a", p, upkeep.HarvestOptions{Options: upkeep.Options{Progress: func(p upkeep.Progress) {
		if p.Records >= 100 {
			cancel()
		}
	}}})
	if err == nil || r.Records >= 300 || r.Done {
		t.Fatalf("interrupted: %v\n%v", err, r)
	}
	r, err = harvest(t.Context(), "a", p, upkeep.HarvestOptions{})
	ok(t, err)
	if died(r) != 300 || r.Records != 300 || !r.Done {
		t.Errorf("gone on with:\n%v", r)
	}
	until := r.Until
	die("second-", 7, 8*time.Minute)
	for i, want := range []int64{7, 0} {
		if i == 1 {
			p.MaxLifetime = 35 * day
		}
		r, err = harvest(t.Context(), "a", p, upkeep.HarvestOptions{Grace: 5 * time.Minute})
		ok(t, err)
		if died(r) != want || r.Counts["earlier"] != 307-want || r.Since < until || r.Until < r.Since {
			t.Errorf("then:\n%v", r)
		}
	}
	if r, err = harvest(t.Context(), "b", p, upkeep.HarvestOptions{}); err != nil || died(r) != 300 { // and of the 7 later, by its Grace
		t.Errorf("another store: %v\n%v", err, r)
	}
	// Interrupted, and gone on with under another policy: it begins again where the last one ended.
	die("third-", 130, -30*time.Second)
	later := func() time.Time { return d.Now().Add(6 * time.Minute) }
	ctx, cancel = context.WithCancel(t.Context())
	_, err = harvest(ctx, "a", p, upkeep.HarvestOptions{Grace: 5 * time.Minute, Options: upkeep.Options{Now: later, Progress: func(upkeep.Progress) { cancel() }}})
	if err == nil {
		t.Fatal("not interrupted")
	}
	p.MaxLifetime = 45 * day
	r, err = harvest(t.Context(), "a", p, upkeep.HarvestOptions{Grace: 5 * time.Minute, Options: upkeep.Options{Now: later}})
	ok(t, err)
	if r.Since < until || len(all(t, b)) != 437 {
		t.Errorf("%d are archived\n%v", len(all(t, b)), r)
	}
}

// A harvest whose place cannot be read says which file has it, and goes on from none.
func TestHarvestCorruptPlace(t *testing.T) {
	d, err := memory.New[session](nil)
	ok(t, err)
	defer func() { ok(t, d.Close()) }()
	b := newFake()
	g := archive.Archiver{Writer: writer(t, b), Source: "links"}
	harvest := func() error {
		_, err := g.Harvest(t.Context(), "a", d, slidingttl.Policy{IdleGrace: day, MaxLifetime: day}, &upkeep.HarvestOptions{Bury: g.Archive})
		return err
	}
	ok(t, harvest())
	place := ""
	for name := range b.files {
		if strings.HasPrefix(name, "checkpoints/harvest-") {
			place, b.files[name] = name, []byte("{")
		}
	}
	var corrupt *archive.CorruptError
	if err := harvest(); place == "" || !errors.As(err, &corrupt) || corrupt.File != place {
		t.Errorf("%v; want that %q is corrupt", err, place)
	}
}

// unread is a store of which some records cannot be read for a while.
type unread struct {
	*memory.Driver[session]
	down atomic.Bool
}

func (u *unread) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if u.down.Load() && strings.HasSuffix(key, "7") {
		return driver.Raw{}, fmt.Errorf("%w: for now", driver.ErrRefused)
	}
	return u.Driver.Raw(ctx, key)
}

// What a harvest could not read, the next one asks for again, however often it fails.
func TestHarvestAsksAgain(t *testing.T) {
	m, err := memory.New(&memory.Options[session]{Retain: 365 * day})
	ok(t, err)
	defer func() { ok(t, m.Close()) }()
	d := &unread{Driver: m}
	now := driver.Floor(m.Now())
	for i := range 30 {
		life := driver.Life{CreatedAt: now.Add(-50 * day), ExpiresAt: now.Add(-time.Duration(i+1) * time.Hour)}
		_, err := m.Insert(t.Context(), fmt.Sprint("key-", i), session{}, life, life.CreatedAt)
		ok(t, err)
	}
	b := newFake()
	w, err := archive.NewWriter(b, nil)
	ok(t, err)
	g := &archive.Archiver{Writer: w, Source: "sessions"}
	policy := slidingttl.Policy{IdleGrace: 60 * day, MaxLifetime: 90 * day}
	for run, want := range []int{27, 27, 30, 30} {
		d.down.Store(run < 2)
		r, err := g.Harvest(t.Context(), "store", d, policy, &upkeep.HarvestOptions{Bury: g.Archive})
		ok(t, err)
		if got := len(all(t, b)); got != want || !r.Done {
			t.Errorf("run %d: %d records are archived; want %d\n%v", run, got, want, r)
		}
	}
}

// Given another Since, a harvest still asks for what could not be read, and so does the next one.
func TestHarvestSinceAsksAgain(t *testing.T) {
	m := retained(t)
	d := &unread{Driver: m}
	die(t, m, "key-", 10, 5*time.Hour)
	b := newFake()
	w, err := archive.NewWriter(b, nil)
	ok(t, err)
	g := &archive.Archiver{Writer: w, Source: "links"}
	for run, want := range []int{9, 9, 10} {
		d.down.Store(run < 2)
		o := &upkeep.HarvestOptions{Bury: g.Archive}
		if run == 1 {
			o.Since = driver.Floor(m.Now()).Add(-time.Hour)
		}
		r, err := g.Harvest(t.Context(), "a", d, harvestPolicy, o)
		ok(t, err)
		if got := len(all(t, b)); got != want || run < 2 && len(r.Again) != 1 {
			t.Errorf("run %d: %d records are archived; want %d\n%v", run, got, want, r)
		}
	}
}

// odd is a store of which the scan cannot read one record, or misreads its expiry, for a while.
type odd struct {
	*memory.Driver[session]
	harm func(s *driver.Scanned)
}

func (o *odd) Scan(ctx context.Context, c driver.Cursor, n int) (driver.Page, error) {
	p, err := o.Driver.Scan(ctx, c, n)
	for i := range p.Records {
		if o.harm != nil && p.Records[i].Key == "key-3" {
			o.harm(&p.Records[i])
		}
	}
	return p, err
}

// A record that was malformed or implausible, and is mended, is archived by the next harvest,
// however long ago it died.
func TestHarvestTakesMended(t *testing.T) {
	for name, harm := range map[string]func(s *driver.Scanned){
		"malformed": func(s *driver.Scanned) {
			s.Problem = &driver.InvalidError{Field: "created_at", Rule: "must be a number"}
		},
		"an expiry in seconds":  func(s *driver.Scanned) { s.ExpiresAt /= 1000 },
		"both times in seconds": func(s *driver.Scanned) { s.CreatedAt, s.ExpiresAt = s.CreatedAt/1000, s.ExpiresAt/1000 },
	} {
		m := retained(t)
		d := &odd{Driver: m, harm: harm}
		die(t, m, "key-", 5, day)
		b := newFake()
		w, err := archive.NewWriter(b, nil)
		ok(t, err)
		g := archive.Archiver{Writer: w, Source: "links"}
		for run, want := range []int{4, 4, 5} {
			if run == 2 {
				d.harm = nil
			}
			r, err := g.Harvest(t.Context(), "a", d, harvestPolicy, &upkeep.HarvestOptions{Bury: g.Archive})
			ok(t, err)
			if got := len(all(t, b)); got != want || r.Counts["malformed"]+r.Counts["implausible"] != int64(5-want) {
				t.Errorf("%s, run %d: %d records are archived; want %d\n%v", name, run, got, want, r)
			}
		}
	}
}

// After a harvest by a clock that was ahead, the next ones fail until they are given a Since: they
// would leave out what has died meanwhile. So does one that goes on with such a harvest.
func TestHarvestClockAhead(t *testing.T) {
	for ended, want := range map[bool]int{false: 9, true: 8} { // the second is not dead for long enough
		m := retained(t)
		b := newFake()
		harvest := func(step time.Duration, since driver.Instant, fails bool) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			now := func() time.Time { return m.Now().Add(step) }
			w, err := archive.NewWriter(b, &archive.WriterOptions{Now: now})
			ok(t, err)
			g := archive.Archiver{Writer: w, Source: "links"}
			bury := func(ctx context.Context, dead []driver.Dead) error {
				if fails {
					cancel()
					return ctx.Err()
				}
				return g.Archive(ctx, dead)
			}
			_, err = g.Harvest(ctx, "a", m, harvestPolicy, &upkeep.HarvestOptions{Bury: bury, Since: since, Options: upkeep.Options{Now: now}})
			return err
		}
		die(t, m, "first-", 3, day)
		ok(t, harvest(0, 0, false))
		die(t, m, "second-", 1, time.Minute)
		if err := harvest(10*day, 0, ended); err != nil != ended {
			t.Errorf("ten days ahead: %v", err)
		}
		die(t, m, "third-", 5, 30*time.Minute)
		if err := harvest(0, 0, false); !errors.Is(err, archive.ErrClock) {
			t.Errorf("with a clock that is right again: %v", err)
		}
		ok(t, harvest(0, driver.Floor(m.Now()).Add(-2*day), false))
		ok(t, harvest(0, 0, false))
		if got := len(all(t, b)); got != want {
			t.Errorf("%d records are archived; want %d", got, want)
		}
	}
}

// resharded is a store that refuses cursors until a scan begins anew.
type resharded struct {
	*memory.Driver[session]
	moved bool
}

func (r *resharded) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	r.moved = false
	return r.Driver.Segments(ctx, n)
}

func (r *resharded) Scan(ctx context.Context, c driver.Cursor, n int) (driver.Page, error) {
	if r.moved {
		return driver.Page{}, driver.BadCursor(c)
	}
	return r.Driver.Scan(ctx, c, n)
}

// If the store refuses the saved cursor, a harvest begins again where the last complete one ended.
func TestHarvestRefusedCursor(t *testing.T) {
	m := retained(t)
	die(t, m, "key-", 300, day)
	b := newFake()
	w, err := archive.NewWriter(b, nil)
	ok(t, err)
	g := &archive.Archiver{Writer: w, Source: "links"}
	d := &resharded{Driver: m}
	ctx, cancel := context.WithCancel(t.Context())
	o := &upkeep.HarvestOptions{Batch: 1, Bury: g.Archive}
	o.Segments, o.Page = 1, 10
	o.Progress = func(upkeep.Progress) { cancel() }
	if _, err := g.Harvest(ctx, "a", d, harvestPolicy, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cancel()
	d.moved = true
	o.Progress = nil
	r, err := g.Harvest(t.Context(), "a", d, harvestPolicy, o)
	if got := len(all(t, b)); err != nil || got != 300 || !r.Done {
		t.Errorf("%d records are archived; want 300: %v\n%v", got, err, r)
	}
}

// A record that was created in the future, as one with the local time in place of UTC, goes to the
// quarantine and stops no other.
func TestHarvestCreatedAhead(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, 9 * time.Hour, 2 * day} {
		m := retained(t)
		now := driver.Floor(m.Now())
		die(t, m, "key-", 5, day)
		_, err := m.Insert(t.Context(), "odd", session{"ann"}, driver.Life{CreatedAt: now.Add(ahead), ExpiresAt: now.Add(-time.Hour)}, 1)
		ok(t, err)
		b := newFake()
		w, err := archive.NewWriter(b, nil)
		ok(t, err)
		g := archive.Archiver{Writer: w, Source: "links"}
		dead := []driver.Dead{{Key: "odd", At: now.Add(-time.Hour), Raw: driver.Raw{Meta: driver.Meta{Life: driver.Life{CreatedAt: now.Add(ahead), ExpiresAt: now.Add(-time.Hour)}}}}}
		ok(t, g.Archive(t.Context(), dead))
		_, err = g.Harvest(t.Context(), "a", m, harvestPolicy, &upkeep.HarvestOptions{Bury: g.Archive})
		ok(t, err)
		s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
		ok(t, err)
		if s.Rows != 5 || s.Counts["quarantined"] == 0 {
			t.Errorf("created %v ahead: %+v", ahead, s)
		}
	}
}

var harvestPolicy = slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day}

// retained is a store in memory that holds its dead for a year.
func retained(t *testing.T) *memory.Driver[session] {
	d, err := memory.New(&memory.Options[session]{Retain: 365 * day})
	ok(t, err)
	t.Cleanup(func() { ok(t, d.Close()) })
	return d
}

// die adds records that died so long ago.
func die(t *testing.T, d *memory.Driver[session], name string, n int, ago time.Duration) {
	now := driver.Floor(d.Now())
	for i := range n {
		_, err := d.Insert(t.Context(), fmt.Sprint(name, i), session{"ann"}, driver.Life{CreatedAt: now.Add(-40 * day), ExpiresAt: now.Add(-ago)}, 1)
		ok(t, err)
	}
}

// The first harvest of a year makes about one file a day.
func TestFirstHarvest(t *testing.T) {
	d, err := memory.New(&memory.Options[session]{Retain: 1000 * day})
	ok(t, err)
	defer func() { ok(t, d.Close()) }()
	now := driver.Floor(d.Now())
	const days, each = 365, 40
	for i := range days * each {
		life := driver.Life{CreatedAt: now.Add(-500 * day), ExpiresAt: now.Add(-time.Duration(i%days+1) * day)}
		_, err := d.Insert(t.Context(), fmt.Sprint("key-", i), session{User: "u"}, life, life.CreatedAt)
		ok(t, err)
	}
	b := newFake()
	w, err := archive.NewWriter(b, nil)
	ok(t, err)
	g := &archive.Archiver{Writer: w, Source: "sessions"}
	policy := slidingttl.Policy{IdleGrace: 60 * day, MaxLifetime: 90 * day}
	_, err = g.Harvest(t.Context(), "store", d, policy, &upkeep.HarvestOptions{Bury: g.Archive})
	ok(t, err)
	s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
	ok(t, err)
	t.Logf("%.2f files a day", float64(s.Files)/days)
	if s.Rows != days*each || s.Files > days*12/10 {
		t.Errorf("%d records in %d files of %d days", s.Rows, s.Files, days)
	}
}

// A life that is retired while or after a harvest runs, by a clock that is behind as far as clocks may
// be, is taken by the next one, with the shortest Grace that is accepted.
func TestHarvestTakesRetired(t *testing.T) {
	const skew = time.Minute
	m, err := memory.New(&memory.Options[session]{Retain: 365 * day})
	ok(t, err)
	defer func() { ok(t, m.Close()) }()
	now := driver.Floor(m.Now())
	life := driver.Life{CreatedAt: now.Add(-day), ExpiresAt: now.Add(day)}
	_, err = m.Insert(t.Context(), "ann", session{"ann"}, life, life.CreatedAt)
	ok(t, err)
	policy := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 90 * day}
	s, err := slidingttl.New(m, policy, &slidingttl.Options[session]{MaxSkew: skew, Now: func() time.Time { return time.Now().Add(-skew) }})
	ok(t, err)
	b := newFake()
	w, err := archive.NewWriter(b, nil)
	ok(t, err)
	g := &archive.Archiver{Writer: w, Source: "s"}
	for run, want := range []int{0, 1} {
		later := func() time.Time { return time.Now().Add(time.Duration(run) * time.Hour) }
		o := &upkeep.HarvestOptions{Bury: g.Archive, Grace: 2*skew + m.Resolution(), Options: upkeep.Options{MaxSkew: skew, Now: later}}
		var invalid *driver.InvalidError
		if _, err := g.Harvest(t.Context(), "a", m, policy, o); !errors.As(err, &invalid) {
			t.Fatalf("too short a Grace: %v", err)
		}
		o.Grace += time.Millisecond
		r, err := g.Harvest(t.Context(), "a", m, policy, o)
		ok(t, err)
		if n := len(all(t, b)); n != want {
			t.Errorf("%d are archived; want %d\n%v", n, want, r)
		}
		if run == 0 {
			ok(t, s.Retire(t.Context(), "ann"))
		}
	}
	ok(t, s.Close(t.Context()))
}
