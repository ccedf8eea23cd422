package slidingttl_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// plantMany plants n records, keyed by their numbers, whose touch is due.
func plantMany(h *hoard[int], n int) (keys []string) {
	at := driver.Floor(time.Now())
	for i := range n {
		keys = append(keys, strconv.Itoa(i))
		h.Plant(keys[i], i, driver.Life{CreatedAt: at, ExpiresAt: at.Add(session.IdleGrace / 2)})
	}
	return keys
}

// many is a repository that answers at once.
type many struct{}

func (many) Get(context.Context, string) (int, error)  { return 1, nil }
func (many) Upsert(context.Context, string, int) error { return nil }

func (many) GetMulti(_ context.Context, ids []string) (map[string]int, error) {
	all := make(map[string]int)
	for _, id := range ids {
		all[id] = 1
	}
	return all, nil
}

// A GetMulti of more records than the queue holds, whose wait is over, starts no touch that nobody waits for.
func TestGetMultiOfMoreThanTheQueue(t *testing.T) {
	for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			var touches crowd
			d.before = func(ctx context.Context, op, _ string) error {
				if op == "touch" {
					defer touches.enter()()
					return sleep(ctx, 50*time.Millisecond)
				}
				return nil
			}
			s := open(t, d, session, &slidingttl.Options[int]{Touches: mode, Queue: 500})
			keys := plantMany(under, 3000)
			all, err := s.GetMulti(t.Context(), keys)
			if must(t, err); len(all) != len(keys) {
				t.Errorf("%d values", len(all))
			}
			if n := touches.most.Load(); n > 64+8 { // the workers, and Options.Parallel
				t.Errorf("%d touches were in flight at once", n)
			}
		})
	}
}

// Wrapped.GetMulti waits for all its touches together no longer than for one, and for nothing once its caller has left.
func TestWrappedGetMultiWaitsOnce(t *testing.T) {
	for _, has := range [][]any{nil, {(*driver.ReadToucher[int])(nil)}} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			d.Has = has
			d.before = func(ctx context.Context, op, _ string) error {
				if op != "get" {
					return sleep(ctx, 90*time.Millisecond)
				}
				return nil
			}
			s := open(t, d, session, nil)
			w, err := slidingttl.Wrap[string, int](many{}, s, func(id string) string { return id }, nil)
			must(t, err)
			keys, began := plantMany(under, 1000), time.Now()
			all, err := w.GetMulti(t.Context(), keys)
			must(t, err)
			if took := time.Since(began); len(all) != len(keys) || took != 100*time.Millisecond {
				t.Errorf("%d values after %v, want TouchWait", len(all), took)
			}
			time.Sleep(session.IdleGrace)
			keys = plantMany(under, 1000)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			all, err = w.GetMulti(ctx, keys)
			if len(all) != len(keys) || err != nil { // the repository has returned them
				t.Errorf("%d values: %v", len(all), err)
			}
		})
	}
}

// Items of one key lose no races with each other.
func TestUpsertMultiOfOneKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, _, _ string) error {
			return sleep(ctx, time.Duration(500+rand.IntN(1000))*time.Microsecond)
		}
		s := open(t, d, session, nil)
		items := make([]slidingttl.Item[int], 300)
		for i := range items {
			items[i] = slidingttl.Item[int]{Key: "k", Value: i}
		}
		must(t, s.UpsertMulti(t.Context(), items))
	})
}

// Once Close has given them up, GetMulti and PeekMulti read no more.
func TestCloseEndsBatches(t *testing.T) {
	for _, op := range []string{"get", "peek"} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			var closed, after atomic.Int64
			d.before = func(context.Context, string, string) error {
				after.Add(closed.Load())
				time.Sleep(10 * time.Millisecond)
				return nil
			}
			s, err := slidingttl.New(d, session, &slidingttl.Options[int]{})
			must(t, err)
			keys, answer := plantMany(under, 2000), make(chan error, 1)
			go func() {
				err := error(nil)
				if op == "get" {
					_, err = s.GetMulti(context.Background(), keys)
				} else {
					_, err = s.PeekMulti(context.Background(), keys)
				}
				answer <- err
			}()
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wantErr(t, s.Close(ctx), context.DeadlineExceeded)
			synctest.Wait()
			closed.Store(1)
			wantErr(t, <-answer, slidingttl.ErrClosed)
			if n := after.Load(); n > 0 {
				t.Errorf("%d reads began after Close", n)
			}
		})
	}
}

// A batch that has ended leaves nothing behind.
func TestBatchesLeaveNothing(t *testing.T) {
	d, _ := newRemote[int](time.Millisecond)
	s := open(t, d, session, nil)
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	before := held()
	for range 10_000 {
		_, err := s.GetMulti(t.Context(), []string{"k"})
		must(t, err)
	}
	if more := held() - before; int64(more) > 1000 {
		t.Errorf("after 10,000 batches %d objects more are held", more)
	}
}

// What died while a batch read it is read again, until Close gives that up.
func TestGivenUpIsErrClosed(t *testing.T) {
	for _, op := range []string{"get multi", "peek multi"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = 10 * time.Millisecond
				var gets atomic.Int64
				d.before = func(ctx context.Context, call, _ string) error {
					if call == "get" && gets.Add(1) == 2 {
						return hangs(ctx)
					}
					return nil
				}
				s, err := slidingttl.New(d, session, &slidingttl.Options[int]{})
				must(t, err)
				now := driver.Floor(time.Now())
				under.Plant("k", 1, driver.Life{CreatedAt: now, ExpiresAt: now.Add(15 * time.Millisecond)})
				answer := make(chan error, 1)
				go func() {
					var err error
					if op == "get multi" {
						_, err = s.GetMulti(context.Background(), []string{"k"})
					} else {
						_, err = s.PeekMulti(context.Background(), []string{"k"})
					}
					answer <- err
				}()
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				wantErr(t, s.Close(ctx), context.DeadlineExceeded)
				wantErr(t, <-answer, slidingttl.ErrClosed)
			})
		})
	}
}
