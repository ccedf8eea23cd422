package memory

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestSlideAfterRefusals: a write that changes nothing leaves its record free to slide.
func TestSlideAfterRefusals(t *testing.T) {
	d := open[int](t, nil)
	ctx, now := t.Context(), d.instant()
	m := mustInsert(t, d, "k", 1, lasting(now, time.Hour))
	refused := errors.New("refused")
	for name, write := range map[string]func(){
		"a conflict": func() {
			other := m
			other.Version++
			if _, err := d.Touch(ctx, "k", other, m.Life, now); !errors.Is(err, driver.ErrConflict) {
				t.Error(err)
			}
		},
		"a plan that refuses": func() {
			if _, err := d.Upsert(ctx, "k", 2, nil, func(*driver.Meta) (driver.Life, error) { return m.Life, refused }, now); err != refused {
				t.Error(err)
			}
		},
		"a plan that panics under the lock": func() {
			defer func() { _ = recover() }()
			calls := 0
			_, _ = d.Upsert(ctx, "k", 2, nil, func(found *driver.Meta) (driver.Life, error) {
				if calls++; calls == 2 {
					panic("plan")
				}
				life := found.Life
				life.ExpiresAt++
				_, err := d.Touch(ctx, "k", *found, life, now) // so it is planned again, under the lock
				return life, err
			}, now)
		},
	} {
		write()
		_, is, at, err := d.Load("k")
		if err != nil {
			t.Fatal(err)
		}
		if !d.Slide(ctx, "k", at, is.ExpiresAt, is.ExpiresAt+1) {
			t.Errorf("after %s a record does not slide", name)
		}
		m = mustGet(t, d, "k").Meta
	}
}

// byHand is a driver whose time a test sets, and what it does when the clock is next read. It runs in
// a bubble: once the sweeper waits, nothing else reads the clock.
type byHand struct {
	*Driver[int]
	now       atomic.Int64
	meanwhile func()
}

// dying returns a driver that holds the record m, which has just died.
func dying(t *testing.T) (d *byHand, m driver.Meta) {
	const born, dies = 1_000_000, 1_000_010
	d = new(byHand)
	d.now.Store(born)
	d.Driver = open(t, &Options[int]{Retain: time.Hour, Now: func() time.Time {
		if f := d.meanwhile; f != nil {
			d.meanwhile = nil
			f()
		}
		return time.UnixMilli(d.now.Load())
	}})
	m = mustInsert(t, d.Driver, "k", 1, driver.Life{CreatedAt: born, ExpiresAt: dies})
	d.now.Store(dies)
	synctest.Wait()
	return d, m
}

// TestGetOfWhatIsTouchedMeanwhile: a Get that finds a record dead, while another call touches it, returns
// it as touched, and ends nothing.
func TestGetOfWhatIsTouchedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := dying(t)
		later := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt + 1000}
		d.meanwhile = func() {
			if _, err := d.Touch(t.Context(), "k", m, later, m.ExpiresAt-1); err != nil {
				t.Error(err)
			}
		}
		e := mustGet(t, d.Driver, "k")
		if e.Life != later {
			t.Errorf("Get returns %+v; stored is %+v", e.Life, later)
		}
		later.ExpiresAt++
		if _, err := d.Touch(t.Context(), "k", e.Meta, later, m.ExpiresAt); err != nil {
			t.Errorf("a Touch of a record that lives: %v", err)
		}
	})
}

// TestUpsertOfTheDead: an Upsert that was held up, and has an earlier time, begins a new life once Get
// has returned the record dead.
func TestUpsertOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := dying(t)
		mustGet(t, d.Driver, "k")
		_, err := d.Upsert(t.Context(), "k", 2, nil, func(found *driver.Meta) (driver.Life, error) {
			if found != nil {
				t.Errorf("the plan is shown %+v", found)
			}
			return lasting(m.ExpiresAt, time.Hour), nil
		}, m.ExpiresAt-1)
		if err != nil {
			t.Error(err)
		}
	})
}

// TestFarExpiries: an expiry that is farther away than a record can keep is the farthest that it can.
func TestFarExpiries(t *testing.T) {
	d := open[int](t, nil)
	now := d.instant()
	for _, far := range []driver.Instant{math.MaxInt64, math.MaxInt64 / 8, math.MaxInt64/8 + 1} {
		_ = d.Delete(t.Context(), "k")
		mustInsert(t, d, "k", 1, driver.Life{CreatedAt: now, ExpiresAt: far})
		if is := mustGet(t, d, "k").ExpiresAt; is != min(far, math.MaxInt64/8) {
			t.Errorf("an expiry of %d is stored as %d", far, is)
		}
	}
	for _, near := range []driver.Instant{math.MinInt64, -1} {
		r := newRecord[int]("k", nil)
		r.setExpiry(near)
		if is := r.expiry(); is >= 0 || is < near {
			t.Errorf("an expiry of %d is stored as %d", near, is)
		}
	}
}

// TestNext: Next is Now rounded up, by the time that Options.Now gives too.
func TestNext(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	for rest, want := range map[time.Duration]driver.Instant{0: 1_000_000, 1: 1_000_001, 999_999: 1_000_001} {
		if is := newClock(func() time.Time { return at.Add(rest) }).next(); is != want {
			t.Errorf("%v after a millisecond began the next is %d, want %d", rest, is, want)
		}
	}
}

// TestNoSlideOverALoweredLife: a Get that began before a touch has ended or lowered a life does not move
// its expiry by what it then knew. The next touch lets Gets slide again.
func TestNoSlideOverALoweredLife(t *testing.T) {
	for name, left := range map[string]time.Duration{"ended": -time.Minute, "lowered": time.Minute} {
		d := open(t, &Options[int]{Retain: time.Hour}) // the sweeper would remove the ended
		ctx, now := t.Context(), d.instant()
		m := mustInsert(t, d, "k", 1, lasting(now, time.Hour))
		lower := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: now.Add(left)}
		if _, err := d.Touch(ctx, "k", m, lower, now); err != nil {
			t.Fatal(err)
		}
		_, loaded, at, err := d.Load("k")
		if err != nil {
			t.Fatal(err)
		}
		if d.Slide(ctx, "k", at, loaded.ExpiresAt, now.Add(time.Hour)) {
			t.Errorf("a life that was %s slides", name)
		}
		if left < 0 {
			continue
		}
		next := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: now.Add(2 * time.Minute)}
		if _, err := d.Touch(ctx, "k", loaded, next, now); err != nil {
			t.Fatal(err)
		}
		if !d.Slide(ctx, "k", at, next.ExpiresAt, now.Add(3*time.Minute)) {
			t.Error("it does not slide after another touch")
		}
	}
}

// A Remove that finds its record dead makes sure that no Slide of a Get that began before revives it.
func TestRemoveOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := dying(t)
		_, _, at, _ := d.Load("k")
		if err := d.Remove(t.Context(), "k", m, m.ExpiresAt); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Remove: %v", err)
		}
		if d.Slide(t.Context(), "k", at, m.ExpiresAt, m.ExpiresAt+10) {
			t.Error("it was revived")
		}
	})
}
