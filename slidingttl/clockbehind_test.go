package slidingttl_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// What an Upsert's answer shows of the clock counts like what a read shows.
func TestUpsertByClockBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		late := open(t, d, session, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(-20 * time.Minute) }})
		for i := range 10 {
			must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
		}
		before := stored(t, under, "1").ExpiresAt
		for i := range 10 {
			must(t, late.Upsert(t.Context(), fmt.Sprint(i), -i))
		}
		e := stored(t, under, "1")
		if e.ExpiresAt < before {
			t.Errorf("the expiry is %v earlier", before.Sub(e.ExpiresAt))
		}
		if err := late.Check(t.Context()); err == nil {
			t.Error("Check passes the clock")
		}
		time.Sleep(25 * time.Minute)
		if _, err := s.Get(t.Context(), "2"); err != nil {
			t.Errorf("25 min after the insert: %v", err)
		}
	})
}

// So does what a queued touch reads.
func TestQueuedTouchByClockBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		late := open(t, d, session, &slidingttl.Options[int]{Budget: 0.5, Touches: slidingttl.Background, Now: func() time.Time { return time.Now().Add(-20 * time.Minute) }})
		for i := range 6 {
			under.Plant(fmt.Sprint(i), i, driver.Life{ExpiresAt: instant(time.Now()).Add(time.Hour)})
			_, err := late.Get(t.Context(), fmt.Sprint(i))
			must(t, err)
		}
		for i := range 6 {
			read(t, s, fmt.Sprint(i)) // adopts
		}
		before := stored(t, under, "5").ExpiresAt
		time.Sleep(20 * time.Second)
		e := stored(t, under, "5")
		if e.ExpiresAt < before {
			t.Errorf("the expiry is %v earlier", before.Sub(e.ExpiresAt))
		}
	})
}

// A clock that is set back is behind for a minute after it was found so, and not until that moment comes again.
func TestBehindAfterClockIsSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var off atomic.Int64
		off.Store(int64(6 * time.Hour)) // the clock is ahead
		s := open(t, d, session, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(time.Duration(off.Load())) }})
		under.Plant("odd", 1, driver.Life{CreatedAt: instant(time.Now()).Add(24 * time.Hour), ExpiresAt: driver.MaxInstant})
		read(t, s, "odd")
		off.Store(0) // mended
		under.Delete(t.Context(), "odd")
		time.Sleep(2 * time.Hour)
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("two hours after: %v", err)
		}
	})
}

// What an Upsert is to lower shows by its created_at, too, that the clock is behind.
func TestRememberedRecordShowsAClockBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, under := newRemote[int](time.Millisecond)
		right := open(t, over[int](under), session, nil)
		late := open(t, over[int](under), session, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(-10 * time.Minute) }})
		must(t, right.Insert(t.Context(), "k", 1))
		time.Sleep(50 * time.Second)
		read(t, right, "k")
		promised := stored(t, under, "k").ExpiresAt
		read(t, late, "k")
		time.Sleep(70 * time.Second)
		must(t, late.Upsert(t.Context(), "k", 2))
		if e := stored(t, under, "k").ExpiresAt; e < promised {
			t.Errorf("the expiry is %v earlier", promised.Sub(e))
		}
	})
}

// What was lowered while the clock was ahead may be lowered again once the clock is right.
func TestLoweredByAClockAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var ahead atomic.Int64
		loose, tight := session, session
		loose.IdleGrace = 10 * time.Hour
		s := open(t, d, loose, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		must(t, s.Insert(t.Context(), "k", 1))
		ahead.Store(int64(8 * time.Hour))
		must(t, s.SetPolicy(tight))
		read(t, s, "k")
		ahead.Store(0)
		time.Sleep(time.Minute)
		read(t, s, "k")
		if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left > tight.IdleGrace+2*time.Minute {
			t.Errorf("the record lives for another %v", left)
		}
	})
}
