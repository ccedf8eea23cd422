package slidingttl_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestHistory: what has died and is still held is told of with the end it came to, and
// stays dead to all other calls.
func TestHistory(t *testing.T) {
	at := func(d time.Duration) driver.Instant { return instant(time.Now().Add(d)) }
	type options = slidingttl.Options[int]
	for name, c := range map[string]struct {
		opts  options
		life  func() driver.Life
		died  time.Duration // from now
		cause slidingttl.ReadOutcome
		want  error
	}{
		"expired now":    {life: func() driver.Life { return driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(0)} }, cause: slidingttl.ReadDiedIdle},
		"expired":        {life: func() driver.Life { return driver.Life{CreatedAt: at(-3 * time.Hour), ExpiresAt: at(-time.Hour)} }, died: -time.Hour, cause: slidingttl.ReadDiedIdle},
		"alive":          {life: func() driver.Life { return driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(time.Millisecond)} }, want: slidingttl.ErrAlive},
		"at its cap":     {life: func() driver.Life { return driver.Life{CreatedAt: at(-13 * time.Hour), ExpiresAt: at(-time.Hour)} }, died: -time.Hour, cause: slidingttl.ReadDiedOfAge},
		"past its cap":   {life: func() driver.Life { return driver.Life{CreatedAt: at(-14 * time.Hour), ExpiresAt: at(time.Hour)} }, died: -2 * time.Hour, cause: slidingttl.ReadDiedOfAge},
		"of no expiry":   {life: func() driver.Life { return driver.Life{CreatedAt: at(-14 * time.Hour)} }, died: -2 * time.Hour, cause: slidingttl.ReadDiedOfAge},
		"foreign":        {life: func() driver.Life { return driver.Life{ExpiresAt: at(-time.Minute)} }, died: -time.Minute, cause: slidingttl.ReadDiedIdle},
		"foreign, alive": {life: func() driver.Life { return driver.Life{} }, want: slidingttl.ErrAlive},
		"by another rule": {opts: options{PolicyOf: func(v int) slidingttl.Policy {
			return slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Duration(v) * time.Hour}
		}}, life: func() driver.Life { return driver.Life{CreatedAt: at(-9 * time.Hour), ExpiresAt: at(time.Hour)} }, died: -2 * time.Hour, cause: slidingttl.ReadDiedOfAge},
		"by a bad rule": {opts: options{PolicyOf: func(int) slidingttl.Policy { return slidingttl.Policy{} }}, life: func() driver.Life { return driver.Life{CreatedAt: at(-9 * time.Hour), ExpiresAt: at(-time.Hour)} }, want: slidingttl.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				reads := 0
				c.opts.Observer = &slidingttl.Observer{Read: func(context.Context, slidingttl.ReadEvent) { reads++ }}
				s := open(t, d, session, &c.opts)
				life := c.life()
				under.Plant("k", 7, life)
				before := stored(t, under, "k")
				p, err := s.History(t.Context(), "k")
				if c.want != nil {
					wantErr(t, err, c.want)
				} else {
					must(t, err)
					if want := (slidingttl.Past[int]{Entry: before, DiedAt: at(c.died), Cause: c.cause}); p != want {
						t.Errorf("History is %+v; want %+v", p, want)
					}
				}
				if after := stored(t, under, "k"); after != before {
					t.Errorf("History has left %+v of %+v", after, before)
				}
				if n := d.counts(); len(n) != 1 || n["get"] != 1 {
					t.Errorf("History called %v; want one get", n)
				}
				if st := s.Stats(); st != (slidingttl.Stats{}) || reads != 0 {
					t.Errorf("History was counted: %+v, %d reads", st, reads)
				}
			})
		})
	}
}

// TestHistoryOfNothing: what is not held is not found, and bad calls are refused.
func TestHistoryOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, &hoard[int]{Step: time.Second}, session, nil)
		_, err := s.History(t.Context(), "never")
		wantErr(t, err, slidingttl.ErrNotFound)
		must(t, s.Upsert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace)
		must(t, s.Delete(t.Context(), "k"))
		_, err = s.History(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		_, err = s.History(t.Context(), "")
		wantErr(t, err, slidingttl.ErrInvalid)
		must(t, s.Close(t.Context()))
		_, err = s.History(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrClosed)
	})
}

// TestHistoryBesideATouch: a record that a touch saves while it is looked at is not told
// to have died.
func TestHistoryBesideATouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		under.Plant("k", 7, driver.Life{CreatedAt: instant(time.Now()), ExpiresAt: instant(time.Now().Add(time.Second))})
		d.trip = time.Second
		_, err := s.History(t.Context(), "k") // read, and answered, past the expiry
		wantErr(t, err, slidingttl.ErrAlive)
		_, err = s.History(t.Context(), "k")
		must(t, err)
	})
}
