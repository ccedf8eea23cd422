package slidingttl_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// TestHistory returns a dead record that is still held, with its cause of death. All other calls
// find it dead.
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
		"expired now":       {life: func() driver.Life { return driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(0)} }, cause: slidingttl.ReadDiedIdle},
		"expired":           {life: func() driver.Life { return driver.Life{CreatedAt: at(-3 * time.Hour), ExpiresAt: at(-time.Hour)} }, died: -time.Hour, cause: slidingttl.ReadDiedIdle},
		"alive":             {life: func() driver.Life { return driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(time.Millisecond)} }, want: slidingttl.ErrAlive},
		"at its cap":        {life: func() driver.Life { return driver.Life{CreatedAt: at(-13 * time.Hour), ExpiresAt: at(-time.Hour)} }, died: -time.Hour, cause: slidingttl.ReadDiedOfAge},
		"past its cap":      {life: func() driver.Life { return driver.Life{CreatedAt: at(-14 * time.Hour), ExpiresAt: at(time.Hour)} }, died: -2 * time.Hour, cause: slidingttl.ReadDiedOfAge},
		"of no expiry":      {life: func() driver.Life { return driver.Life{CreatedAt: at(-14 * time.Hour)} }, died: -2 * time.Hour, cause: slidingttl.ReadDiedOfAge},
		"foreign":           {life: func() driver.Life { return driver.Life{ExpiresAt: at(-time.Minute)} }, died: -time.Minute, cause: slidingttl.ReadDiedIdle},
		"foreign, rejected": {opts: options{Foreign: slidingttl.Reject}, life: func() driver.Life { return driver.Life{ExpiresAt: at(-time.Minute)} }, want: slidingttl.ErrForeign},
		"foreign, alive":    {life: func() driver.Life { return driver.Life{} }, want: slidingttl.ErrAlive},
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

// TestCauseStays: a record's cause of death never changes, for History, the observer and Stats.
func TestCauseStays(t *testing.T) {
	const day = 24 * time.Hour
	p := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day}
	for name, c := range map[string]struct {
		expires time.Duration
		cause   slidingttl.ReadOutcome
		died    int // day
	}{
		"idle":         {7 * day, slidingttl.ReadDiedIdle, 7},
		"late of idle": {29 * day, slidingttl.ReadDiedIdle, 29},
		"age":          {30 * day, slidingttl.ReadDiedOfAge, 30},
		"past its cap": {40 * day, slidingttl.ReadDiedOfAge, 30},
		"no expiry":    {0, slidingttl.ReadDiedOfAge, 30},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				var seen slidingttl.ReadOutcome
				s := open(t, d, p, &slidingttl.Options[int]{Observer: &slidingttl.Observer{Read: func(_ context.Context, e slidingttl.ReadEvent) { seen = e.Outcome }}})
				life := driver.Life{CreatedAt: instant(time.Now())}
				if c.expires != 0 {
					life.ExpiresAt = life.CreatedAt.Add(c.expires)
				}
				time.Sleep(time.Duration(c.died) * day)
				for today := c.died; today <= 100; today++ {
					under.Plant("k", 7, life)
					past, err := s.History(t.Context(), "k")
					must(t, err)
					before := s.Stats()
					_, err = s.Get(t.Context(), "k")
					wantErr(t, err, slidingttl.ErrNotFound)
					after := s.Stats()
					counted := slidingttl.ReadDiedIdle
					if after.DiedOfAge > before.DiedOfAge {
						counted = slidingttl.ReadDiedOfAge
					}
					if past.Cause != c.cause || seen != c.cause || counted != c.cause || past.DiedAt != life.CreatedAt.Add(time.Duration(c.died)*day) {
						t.Fatalf("day %d: History says %v, the observer %v, Stats %v; want %v, on day %d", today, past.Cause, seen, counted, c.cause, c.died)
					}
					time.Sleep(day)
				}
			})
		})
	}
}

// TestHistoryOfNothing: a record that is not held is not found, and invalid calls are refused.
func TestHistoryOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, fakestore.New[int](time.Second), session, nil)
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

// TestHistoryBesideATouch: a record that a touch saves during the read is not returned as dead.
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
