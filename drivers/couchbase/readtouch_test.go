package couchbase_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const aSecond = driver.Instant(1000)

// anAccess at now keeps a record for an hour, and no record longer than a day.
func anAccess(now driver.Instant) driver.Access {
	return driver.Access{At: now, Keep: 3600 * aSecond, Stored: 3600 * aSecond, Most: 24 * 3600 * aSecond, Step: time.Second}
}

// Whatever the caller remembers of a record, ReadTouch returns it as it is stored, and moves
// only the expiry of the remembered record.
func TestReadTouch(t *testing.T) {
	type counts = couchbasetest.Counts
	plain := counts{LookupIn: 1}
	together := counts{LookupIn: 1, MutateIn: 1, Mutations: 1}
	refused := counts{LookupIn: 1, MutateIn: 1}
	for _, c := range []struct {
		name   string
		known  func(driver.Meta) *driver.Meta // nil: right
		change func(context.Context, *fixture, *couchbase.Driver[profile], driver.Meta) error
		fault  couchbasetest.Fault
		want   counts
		err    error
	}{
		{name: "remembered", want: together},
		{name: "not remembered", known: func(driver.Meta) *driver.Meta { return nil }, want: plain},
		{name: "without a version", known: func(m driver.Meta) *driver.Meta { return &driver.Meta{Life: m.Life} }, want: plain},
		{name: "foreign", known: func(m driver.Meta) *driver.Meta { m.CreatedAt = 0; return &m }, want: plain},
		{
			name: "dead by memory", want: plain,
			known: func(m driver.Meta) *driver.Meta { m.ExpiresAt = driver.Floor(start); return &m },
		}, {
			name: "not due", want: plain,
			known: func(m driver.Meta) *driver.Meta { m.ExpiresAt += 3600 * aSecond; return &m },
		}, {
			name: "touched since", want: refused,
			change: func(ctx context.Context, f *fixture, d *couchbase.Driver[profile], was driver.Meta) error {
				return calls(d, was)["Touch"](ctx)
			},
		}, {
			name: "overwritten since", want: refused,
			change: func(ctx context.Context, f *fixture, d *couchbase.Driver[profile], was driver.Meta) error {
				return calls(d, was)["Replace"](ctx)
			},
		}, {
			name: "of another generation", want: refused,
			change: func(ctx context.Context, f *fixture, d *couchbase.Driver[profile], was driver.Meta) error {
				now := driver.Floor(start)
				return errors.Join(d.Delete(ctx, secret),
					second(d.Insert(ctx, secret, profile{Name: "next"}, driver.Life{CreatedAt: now + 1, ExpiresAt: now + 120*aSecond}, now)))
			},
		}, {
			name: "deleted", want: refused, err: driver.ErrNotFound,
			change: func(ctx context.Context, f *fixture, d *couchbase.Driver[profile], was driver.Meta) error {
				return d.Delete(ctx, secret)
			},
		}, {
			name: "locked", want: refused,
			change: func(ctx context.Context, f *fixture, d *couchbase.Driver[profile], was driver.Meta) error {
				return second(f.c.GetAndLock(secret, 15*time.Second, nil))
			},
		},
		{name: "touch refused for now", fault: couchbasetest.Fault{Status: memd.StatusTmpFail}, want: refused},
		{name: "touch not answered", fault: couchbasetest.Fault{Silent: true}, want: refused},
		{name: "touch not answered, and landed", fault: couchbasetest.Fault{Silent: true, Applied: true}, want: together},
	} {
		for _, place := range []couchbase.Place{couchbase.Xattr, couchbase.Body} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				f := open(t)
				d := newDriver[profile](t, f, &couchbase.Options{CreatedIn: place})
				now := driver.Floor(start)
				was := driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: (now + 600*aSecond).RoundUp(time.Second)}}
				var err error
				was.Version, err = d.Insert(t.Context(), secret, profile{Name: "kept"}, was.Life, now)
				ok(t, "Insert", err)
				known := &was
				if c.known != nil {
					known = c.known(was)
				}
				if c.change != nil {
					ok(t, "change", c.change(t.Context(), f, d, was))
				}
				before, berr := d.Get(t.Context(), secret)
				if fault := c.fault; fault.Silent || fault.Status != memd.StatusSuccess {
					fault.Ops = []couchbasetest.Op{couchbasetest.OpMutateIn}
					ok(t, "Inject", f.Inject(fault))
				}
				var e driver.Entry[profile]
				var touched bool
				counts := f.during(func() { e, touched, err = d.ReadTouch(t.Context(), secret, known, anAccess(now), now) })
				if counts != c.want {
					t.Errorf("the node counted %+v; want %+v", counts, c.want)
				}
				if !errors.Is(err, c.err) || !errors.Is(berr, c.err) {
					t.Fatalf("ReadTouch: %v, after Get: %v; want %v", err, berr, c.err)
				}
				if c.err != nil {
					return
				}
				after, err := d.Get(t.Context(), secret)
				ok(t, "Get", err)
				switch {
				case c.want != together:
					if touched || e != before || after != before {
						t.Errorf("ReadTouch: %+v, %t; then the record is %+v; want it as it was, %+v", e, touched, after, before)
					}
				case touched == c.fault.Silent:
					t.Errorf("touched is %t", touched)
				default:
					want := driver.Life{CreatedAt: now, ExpiresAt: (now + 3600*aSecond).RoundUp(time.Second)}
					if e != after || e.Life != want || e.Value.Name != "kept" {
						t.Errorf("ReadTouch: %+v, then the record is %+v; want life %+v", e, after, want)
					}
				}
			})
		}
	}
}

// Whatever others write under the key, no value is returned with another one's life, and only
// the record's own expiry moves.
func TestReadTouchAmongWriters(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	ctx := t.Context()
	base := driver.Floor(start)
	// A record's Count is its created_at after base, and its expiry lies in the hour
	// of its own that goes with it.
	born := func(n int) driver.Life {
		at := base + driver.Instant(n)
		return driver.Life{CreatedAt: at, ExpiresAt: (base + driver.Instant(n+1)*3600*aSecond).RoundUp(time.Second)}
	}
	fits := func(e driver.Entry[profile]) bool {
		first := born(e.Value.Count)
		return e.CreatedAt == first.CreatedAt && e.ExpiresAt >= first.ExpiresAt && e.ExpiresAt < first.ExpiresAt+3600*aSecond
	}
	together(8, func(i int) {
		var known *driver.Meta
		for n := range 150 {
			if i < 2 {
				ok(t, "Delete", d.Delete(ctx, "k"))
				gen := 2*n + i
				if _, err := d.Insert(ctx, "k", profile{Count: gen}, born(gen), base); err != nil && !errors.Is(err, driver.ErrConflict) {
					t.Errorf("Insert: %v", err)
				}
				continue
			}
			a := anAccess(base)
			if known != nil { // a minute more than it has
				a.Keep = known.ExpiresAt - base + driver.Instant(rand.IntN(60))*aSecond
				a.Stored, a.Most = a.Keep, driver.MaxInstant/2
			}
			e, _, err := d.ReadTouch(ctx, "k", known, a, base)
			switch {
			case errors.Is(err, driver.ErrNotFound):
				known = nil
			case err != nil:
				t.Errorf("ReadTouch: %v", err)
			case !fits(e):
				t.Errorf("the value of record %d came with the life %+v; it was born with %+v", e.Value.Count, e.Life, born(e.Value.Count))
			default:
				known = &e.Meta
			}
		}
	})
	e, err := d.Get(ctx, "k")
	if err != nil && !errors.Is(err, driver.ErrNotFound) || err == nil && !fits(e) {
		t.Errorf("at the end the record is %+v, %v", e, err)
	}
}

// A caller whose context ends gets its error, and the touch is not left behind.
func TestReadTouchEndsWithItsContext(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	was := record(t, f)
	defer f.Hang()()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	now := driver.Floor(start) + aSecond
	if _, _, err := d.ReadTouch(ctx, secret, &was, anAccess(now), now); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ReadTouch: %v; want the context's error", err)
	}
	var own *gocb.TimeoutError
	short := newDriver[profile](t, f, &couchbase.Options{Timeout: 20 * time.Millisecond})
	if _, _, err := short.ReadTouch(t.Context(), secret, &was, anAccess(now), now); !errors.As(err, &own) {
		t.Errorf("ReadTouch: %v; want gocb's time-out", err)
	}
}
