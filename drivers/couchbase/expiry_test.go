package couchbase_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The stored expiry is the given instant, whatever its distance and the server's clock.
func TestExpiryIsExact(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	ctx := t.Context()
	now := driver.Floor(start)
	for _, skew := range []time.Duration{0, 2 * time.Second, -2 * time.Second, time.Hour} {
		for _, life := range []time.Duration{
			time.Second, 2 * time.Second, 30 * time.Minute,
			30*24*time.Hour - time.Second, 30 * 24 * time.Hour, 30*24*time.Hour + time.Second,
			90 * 24 * time.Hour, 20 * 365 * 24 * time.Hour,
		} {
			if life < 2*skew {
				continue // dead on arrival by the server's clock
			}
			t.Run(fmt.Sprintf("%v by a server %v ahead", life, skew), func(t *testing.T) {
				f.SetTime(start.Add(skew))
				key := "k" + life.String() + skew.String()
				at := now.Add(life).RoundUp(time.Second)
				l := driver.Life{CreatedAt: now, ExpiresAt: at}
				check := func(what string, version driver.Version, err error, want driver.Life) driver.Meta {
					t.Helper()
					ok(t, what, err)
					e, err := d.Get(ctx, key)
					ok(t, "Get after "+what, err)
					m := driver.Meta{Life: want, Version: version}
					if e.Meta != m {
						t.Errorf("after %s the record has %+v; want %+v", what, e.Meta, m)
					}
					if expiry, created := stored(t, f.c, key); expiry != int64(want.ExpiresAt)/1000 || created != int64(now) {
						t.Errorf("after %s the server has expiry %d, created_at %d; want %d, %d", what, expiry, created, int64(want.ExpiresAt)/1000, now)
					}
					return m
				}
				version, err := d.Insert(ctx, key, profile{Name: "a"}, l, now)
				was := check("Insert", version, err, l)

				l.ExpiresAt = l.ExpiresAt.Add(time.Second)
				version, err = d.Touch(ctx, key, was, l, now)
				was = check("Touch", version, err, l)

				l.ExpiresAt = l.ExpiresAt.Add(time.Second)
				version, err = d.Replace(ctx, key, profile{Name: "b"}, was, l, now)
				check("Replace", version, err, l)
			})
		}
	}
}

// An expiry that the server would take for a number of seconds from now, or that does
// not fit, is refused before anything is sent.
func TestExpiryOutOfRange(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	for _, at := range []driver.Instant{1, -5000, 30 * 24 * 3600 * 1000, 1 << 32 * 1000, driver.MaxInstant} {
		life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: at}
		counts := f.during(func() {
			for what, call := range map[string]func() error{
				"Insert": func() error {
					_, err := d.Insert(t.Context(), "k", profile{}, life, 0)
					return err
				},
				"Replace": func() error {
					_, err := d.Replace(t.Context(), "k", profile{}, driver.Meta{Version: 7}, life, 0)
					return err
				},
				"Touch": func() error {
					_, err := d.Touch(t.Context(), "k", driver.Meta{Version: 7}, life, 0)
					return err
				},
			} {
				var invalid *driver.InvalidError
				if err := call(); !errors.As(err, &invalid) || invalid.Field != "expiry" {
					t.Errorf("%s with expiry %d: %v; want an InvalidError for the expiry", what, at, err)
				}
			}
		})
		if counts.MutateIn != 0 {
			t.Errorf("%d writes were sent", counts.MutateIn)
		}
	}
}

// A store's promises hold to the second through the driver: never early, at most a
// second late, and nothing past the cap, by the server's own clock.
func TestPromisesToTheSecond(t *testing.T) {
	for _, p := range []slidingttl.Policy{
		{IdleGrace: 1500 * time.Millisecond, MaxLifetime: 10 * time.Second},
		{IdleGrace: time.Millisecond, MaxLifetime: time.Millisecond},
		{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute},
		{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90*24*time.Hour + 700*time.Millisecond},
	} {
		t.Run(fmt.Sprint(p.IdleGrace, p.MaxLifetime), func(t *testing.T) {
			f := open(t)
			s := newStore(t, f, newDriver[profile](t, f, nil), p, nil)
			ctx := t.Context()
			ok(t, "Upsert", s.Upsert(ctx, "k", profile{Name: "a"}))
			born := driver.Floor(f.Now())
			last := f.Now()
			// Accesses at three quarters of the idle grace keep it alive up to the cap.
			step := p.IdleGrace * 3 / 4
			for f.Now().Add(step).Before(p.Cap(born).Time()) && step > 0 {
				f.Advance(step)
				last = f.Now()
				if _, err := s.Get(ctx, "k"); err != nil {
					t.Fatalf("Get %v after the last access, %v after creation: %v", step, last.Sub(start), err)
				}
			}
			deadline := p.Deadline(born, driver.Ceil(last)).Time()
			if last = deadline.Add(-time.Millisecond); last.After(f.Now()) {
				f.SetTime(last)
			}
			if _, err := s.Peek(ctx, "k"); err != nil {
				t.Errorf("Peek a millisecond before the deadline: %v", err)
			}
			// Slack and rounding may keep it a little longer, the cap never.
			gone := min(p.Expiry(born, driver.Ceil(deadline.Add(-p.IdleGrace))).RoundUp(time.Second), p.Cap(born)).Time()
			f.SetTime(gone)
			if _, err := s.Get(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Get at %v, the deadline with slack and rounding: %v; want ErrNotFound", gone, err)
			}
		})
	}
}
