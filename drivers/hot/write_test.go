package hot_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A write changes the record under key, which was read as was. value and its expiry are the
// record afterwards.
type write struct {
	value  string // empty: it is gone
	expiry driver.Instant
	call   func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error
}

// writes are all kinds of writes, and Forget after another process's write. They find a record
// that expires in an hour.
func writes(r *remote[string]) map[string]write {
	now := r.now()
	hour, two := now.Add(time.Hour), now.Add(2*time.Hour)
	life := driver.Life{CreatedAt: now, ExpiresAt: two}
	span := func(d time.Duration) driver.Instant { return driver.Instant(0).Add(d) }
	access := driver.Access{At: now, Keep: span(2 * time.Hour), Stored: span(2 * time.Hour), Most: span(24 * time.Hour), Step: time.Millisecond}
	return map[string]write{
		"Insert": {"new", two, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			_, err := h.Insert(ctx, key, "new", life, was.ExpiresAt) // which finds it dead
			return err
		}},
		"Replace": {"new", two, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			_, err := h.Replace(ctx, key, "new", was, life, now)
			return err
		}},
		"Upsert": {"new", two, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			u, _ := driver.As[driver.Upserter[string]](h)
			_, err := u.Upsert(ctx, key, "new", nil, func(*driver.Meta) (driver.Life, error) { return life, nil }, now)
			return err
		}},
		"Overwrite": {"new", two, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			o, _ := driver.As[driver.Overwriter[string]](h)
			_, err := o.Overwrite(ctx, key, "new", life, access, now)
			return err
		}},
		"Touch": {"old", two, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			_, err := h.Touch(ctx, key, was, life, now)
			return err
		}},
		"ReadTouch": {"old", two, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			r, _ := driver.As[driver.ReadToucher[string]](h)
			_, touched, err := r.ReadTouch(ctx, key, &was, access, now)
			if !touched {
				return errors.New("it was not touched")
			}
			return err
		}},
		"Delete": {"", 0, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			return h.Delete(ctx, key)
		}},
		"Remove": {"", 0, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			return driver.Remove(ctx, h, key, was, now)
		}},
		"Mend": {"mended", hour, func(ctx context.Context, h *hot.Driver[string], was driver.Meta, now driver.Instant) error {
			m, _ := driver.As[driver.Mender](h)
			_, err := m.Mend(ctx, key, true)
			return err
		}},
		"Forget": {"new", two, func(ctx context.Context, h *hot.Driver[string], _ driver.Meta, _ driver.Instant) error {
			defer h.Forget(key)
			return r.plant(ctx, key, "new", life)
		}},
		"ForgetAll": {"new", two, func(ctx context.Context, h *hot.Driver[string], _ driver.Meta, _ driver.Instant) error {
			defer h.ForgetAll()
			return r.plant(ctx, key, "new", life)
		}},
	}
}

// seen wants h to return the record that w has left.
func (w write) seen(t testing.TB, h *hot.Driver[string]) {
	t.Helper()
	e, err := h.Get(t.Context(), key)
	switch {
	case w.value == "" && !errors.Is(err, driver.ErrNotFound):
		t.Errorf("Get: %q, %v; want %v", e.Value, err, driver.ErrNotFound)
	case w.value != "" && (err != nil || e.Value != w.value || e.ExpiresAt != w.expiry):
		t.Errorf("Get: %q until %d, %v; want %q until %d", e.Value, e.ExpiresAt, err, w.value, w.expiry)
	}
}

// mender is a driver whose Mend writes another value.
type mender struct{ store *remote[string] }

func (m mender) Mend(ctx context.Context, key string, _ bool) (string, error) {
	e, err := m.store.Driver.Get(ctx, key)
	if err == nil {
		_, err = m.store.Replace(ctx, key, "mended", e.Meta, e.Life, m.store.now())
	}
	return "a fault", err
}

// eachWrite runs f for each of writes, with an existing record.
func eachWrite(t *testing.T, f func(t *testing.T, r *remote[string], h *hot.Driver[string], w write, do func())) {
	for name := range writes(newRemote[string](t)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote[string](t)
				r.mender = mender{r}
				h := tier(t, r, 10)
				r.put(t, key, "old", time.Hour)
				e, err := r.Driver.Get(t.Context(), key)
				ok(t, "Get", err)
				w := writes(r)[name]
				f(t, r, h, w, func() { ok(t, name, w.call(t.Context(), h, e.Meta, r.now())) })
			})
		})
	}
}

// A process sees what it has written at once.
func TestOwnWritesAreSeen(t *testing.T) {
	eachWrite(t, func(t *testing.T, r *remote[string], h *hot.Driver[string], w write, do func()) {
		reads(t, r, h, "old", 1)
		do()
		w.seen(t, h)
		w.seen(t, h)
	})
}

// A touch leaves what it has touched in memory. The value is as old as its last read.
func TestTouchKeepsWhatIsHeld(t *testing.T) {
	for name, w := range writes(newRemote[string](t)) {
		if w.value != "old" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote[string](t)
				h := tier(t, r, 10)
				r.put(t, key, "old", time.Hour)
				reads(t, r, h, "old", 1)
				e, err := h.Get(t.Context(), key)
				ok(t, "Get", err)
				time.Sleep(20 * time.Second)
				ok(t, name, writes(r)[name].call(t.Context(), h, e.Meta, r.now()))
				if name == "ReadTouch" {
					time.Sleep(20 * time.Second)
				}
				time.Sleep(10*time.Second - time.Nanosecond)
				reads(t, r, h, "old", 0)
				time.Sleep(time.Nanosecond)
				reads(t, r, h, "old", 1)
			})
		})
	}
}

// A touch of another record than the held one leaves nothing in memory: a value is not answered
// with another record's life.
func TestTouchOfAnotherForgets(t *testing.T) {
	r := newRemote[string](t)
	h := tier(t, r, 10)
	r.put(t, key, "first", time.Hour)
	reads(t, r, h, "first", 1)
	r.put(t, key, "second", time.Hour)
	e, err := r.Driver.Get(t.Context(), key) // as a scan returns it
	ok(t, "Get", err)
	_, err = h.Touch(t.Context(), key, e.Meta, r.life(2*time.Hour), r.now())
	ok(t, "Touch", err)
	reads(t, r, h, "second", 1)
}

// After a refused touch the held record is dropped, because it is out of date.
func TestRefusedTouchForgets(t *testing.T) {
	r := newRemote[string](t)
	h := tier(t, r, 10)
	r.put(t, key, "first", time.Hour)
	e, err := h.Get(t.Context(), key)
	ok(t, "Get", err)
	r.put(t, key, "second", 2*time.Hour)
	if _, err := h.Touch(t.Context(), key, e.Meta, r.life(3*time.Hour), r.now()); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("Touch of a record that another wrote over: %v", err)
	}
	reads(t, r, h, "second", 1)
	if e, err := r.Driver.Get(t.Context(), key); err != nil || e.ExpiresAt.Sub(e.CreatedAt) != 2*time.Hour {
		t.Errorf("stored is a life of %v, %v", e.ExpiresAt.Sub(e.CreatedAt), err)
	}
}

// slow runs read, and delays its answer until between has run.
func slow(r *remote[string], read, between func()) {
	gate := make(chan struct{})
	var taken atomic.Bool
	r.holds(func(context.Context) {
		if !taken.Swap(true) {
			<-gate
		}
	})
	var wg sync.WaitGroup
	wg.Go(read)
	synctest.Wait()
	between()
	close(gate)
	wg.Wait()
	r.holds(nil)
}

// If a write of this process overtakes a read, the read's callers get its result, but it is not
// held, and reads after the write do not join it.
func TestOvertakenReadIsNotHeld(t *testing.T) {
	kinds := map[string]func(h *hot.Driver[string], t *testing.T) (driver.Entry[string], error){
		"Get": func(h *hot.Driver[string], t *testing.T) (driver.Entry[string], error) {
			return h.Get(t.Context(), key)
		},
		"Latest": func(h *hot.Driver[string], t *testing.T) (driver.Entry[string], error) {
			return h.Latest(t.Context(), key)
		},
		"GetMulti": func(h *hot.Driver[string], t *testing.T) (driver.Entry[string], error) {
			found, err := driver.GetMulti(t.Context(), h, []string{key})
			return found[key], err
		},
		"ReadTouch, not due": func(h *hot.Driver[string], t *testing.T) (driver.Entry[string], error) {
			r, _ := driver.As[driver.ReadToucher[string]](h)
			e, _, err := r.ReadTouch(t.Context(), key, nil, driver.Access{Most: 1}, 1)
			return e, err
		},
	}
	for kind, read := range kinds {
		t.Run(kind, func(t *testing.T) {
			eachWrite(t, func(t *testing.T, r *remote[string], h *hot.Driver[string], w write, do func()) {
				slow(r, func() {
					if e, err := read(h, t); err != nil || e.Value != "old" {
						t.Errorf("the read that was overtaken: %q, %v", e.Value, err)
					}
				}, func() {
					do()
					w.seen(t, h)
					h.Forget("another") // another key, which has no effect
				})
				w.seen(t, h)
			})
		})
	}
}

// A touch whose answer is overtaken by a write leaves nothing in memory.
func TestOvertakenTouchIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "old", time.Hour)
		slow(r, func() {
			toucher, _ := driver.As[driver.ReadToucher[string]](h)
			hours := driver.Instant(0).Add(2 * time.Hour)
			_, touched, err := toucher.ReadTouch(t.Context(), key, nil, driver.Access{At: r.now(), Keep: hours, Stored: hours, Most: hours, Step: 1}, r.now())
			if ok(t, "ReadTouch", err); !touched {
				t.Error("it was not touched")
			}
		}, func() { ok(t, "Delete", h.Delete(t.Context(), key)) })
		if _, err := h.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get of a deleted record: %v", err)
		}
	})
}

// Many goroutines write one key each while others read them all: every read of a writer finds
// its last write.
func TestOwnWritesAreSeenUnderLoad(t *testing.T) {
	const keys, rounds = 8, 300
	r := newRemote[string](t)
	h := tier(t, r, keys/2)
	name := func(i int) string { return fmt.Sprint("key ", i) }
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for i := range keys {
		r.put(t, name(i), "-1", time.Hour)
		readers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				default:
					_, _ = h.Get(t.Context(), name(n%keys))
				}
			}
		})
		writers.Go(func() {
			for n := range rounds {
				e, err := h.Get(t.Context(), name(i))
				if err == nil && n%3 == 0 {
					e.Life.ExpiresAt++
					e.Version, err = h.Touch(t.Context(), name(i), driver.Meta{Life: driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt - 1}, Version: e.Version}, e.Life, r.now())
				}
				if err == nil {
					_, err = h.Replace(t.Context(), name(i), fmt.Sprint(n), e.Meta, e.Life, r.now())
				}
				if err != nil {
					t.Errorf("round %d: %v: what was read is not what this process wrote", n, err)
					return
				}
				if e, err = h.Get(t.Context(), name(i)); err != nil || e.Value != fmt.Sprint(n) {
					t.Errorf("Get: %q, %v; want %d", e.Value, err, n)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}
