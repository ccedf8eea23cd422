package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const day = 24 * time.Hour

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type session struct {
	User string `json:"user"`
}

// Each record that dies in memory is in the archive once, with its cause of death.
func TestMemory(t *testing.T) {
	policy := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day}
	var batches [][]driver.Dead // written after the bubble: inside it, sync.Pools would keep parts of the bubble
	synctest.Test(t, func(t *testing.T) {
		q, err := archive.NewQueue(func(_ context.Context, dead []driver.Dead) error {
			batches = append(batches, dead)
			return nil
		}, nil)
		ok(t, err)
		d, err := memory.New(&memory.Options[session]{OnExpiry: archive.OnExpiry[session, memory.Reason](q)})
		ok(t, err)
		s, err := slidingttl.New(d, policy, nil)
		ok(t, err)
		const n = 6000
		for i := range n {
			ok(t, s.Upsert(t.Context(), fmt.Sprint("idle-", i), session{"ann"}))
		}
		ok(t, s.Upsert(t.Context(), "busy", session{"bob"}))
		ok(t, s.Upsert(t.Context(), "deleted", session{"eve"}))
		ok(t, s.Delete(t.Context(), "deleted"))
		for range 100 {
			time.Sleep(day)
			if _, err := s.Get(t.Context(), "busy"); err != nil && !errors.Is(err, slidingttl.ErrNotFound) {
				t.Fatal(err)
			}
		}
		ok(t, s.Close(t.Context()))
		ok(t, d.Close())
		ok(t, q.Close(t.Context()))
		if q.Add(driver.Dead{}) {
			t.Error("a queue that is closed takes one more")
		}
	})
	b, _ := directory(t)
	w, err := archive.NewWriter(b, nil)
	ok(t, err)
	grave := &archive.Grave{Writer: w, Source: "sessions", Policy: func(string) slidingttl.Policy { return policy }}
	for _, dead := range batches {
		ok(t, grave.Bury(t.Context(), dead))
	}
	reasons := make(map[archive.Reason]int)
	for _, a := range all(t, b) {
		reasons[a.Reason]++
		if a.Source != "sessions" || a.Format != "json" || a.ExpiredAt.Sub(a.CreatedAt) != map[archive.Reason]time.Duration{archive.Idle: 30 * day, archive.Age: 90 * day}[a.Reason] {
			t.Fatalf("archived %+v", a)
		}
		if want := map[bool]string{true: `{"user":"bob"}`, false: `{"user":"ann"}`}[a.Key == "busy"]; string(a.Value) != want {
			t.Fatalf("%s has the value %s", a.Key, a.Value)
		}
	}
	if len(reasons) != 2 || reasons[archive.Idle] != 6000 || reasons[archive.Age] != 1 {
		t.Errorf("archived by reason: %v", reasons)
	}
}

// OnError gets the errors of Bury, and the dead records are handed over again. Close counts the
// records that are left when its context ends.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		var calls, buried, reported atomic.Int64
		var works atomic.Bool
		q, err := archive.NewQueue(func(_ context.Context, dead []driver.Dead) error {
			calls.Add(1)
			if !works.Load() {
				return full
			}
			buried.Add(int64(len(dead)))
			return nil
		}, &archive.QueueOptions{Batch: 10, Every: time.Minute, OnError: func(err error) {
			if errors.Is(err, full) {
				reported.Add(1)
			}
		}})
		ok(t, err)
		for range 3 {
			q.Add(driver.Dead{})
		}
		time.Sleep(59 * time.Second)
		if synctest.Wait(); calls.Load() != 0 {
			t.Error("a batch that is not full does not wait for others")
		}
		time.Sleep(3500 * time.Millisecond)
		if synctest.Wait(); calls.Load() != 3 || reported.Load() != 3 {
			t.Errorf("%d calls, %d errors reported; want 3", calls.Load(), reported.Load())
		}
		works.Store(true)
		time.Sleep(time.Second)
		if synctest.Wait(); buried.Load() != 3 {
			t.Errorf("%d were buried; want 3", buried.Load())
		}
		for range 25 {
			q.Add(driver.Dead{})
		}
		ok(t, q.Close(t.Context()))
		if buried.Load() != 28 {
			t.Errorf("%d were buried; want 28", buried.Load())
		}

		var mu sync.Mutex // guards bad
		var bad []error
		q, err = archive.NewQueue(func(context.Context, []driver.Dead) error { return full }, &archive.QueueOptions{OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			bad = append(bad, err)
		}})
		ok(t, err)
		archive.OnExpiry[float64, memory.Reason](q)("k", driver.Entry[float64]{Value: math.NaN()}, memory.Idle)
		var json *json.UnsupportedValueError
		if len(bad) != 1 || !errors.Is(bad[0], driver.ErrInvalid) || !errors.As(bad[0], &json) {
			t.Errorf("a value that is no JSON: %v", bad)
		}
		for range 7 {
			q.Add(driver.Dead{})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := q.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "7 dead records") {
			t.Errorf("Close of a queue that cannot be emptied: %v", err)
		}
		for field, o := range map[string]archive.QueueOptions{"QueueOptions.Batch": {Batch: -1}, "QueueOptions.BatchBytes": {BatchBytes: -1}, "QueueOptions.Every": {Every: -1}} {
			var invalid *driver.InvalidError
			if _, err := archive.NewQueue(func(context.Context, []driver.Dead) error { return nil }, &o); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

// Long values are handed over a few at a time, and Add waits while there is no room.
func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var most, buried atomic.Int64
		q, err := archive.NewQueue(func(_ context.Context, dead []driver.Dead) error {
			<-release
			most.Store(max(most.Load(), int64(len(dead))))
			buried.Add(int64(len(dead)))
			return nil
		}, &archive.QueueOptions{BatchBytes: 100})
		ok(t, err)
		var added atomic.Int64
		var group sync.WaitGroup
		group.Go(func() {
			for i := range 20 {
				size := 30
				if i == 10 {
					size = 1000 // more than the room of the queue
				}
				q.Add(driver.Dead{Raw: driver.Raw{Value: make([]byte, size)}})
				added.Add(1)
			}
		})
		time.Sleep(time.Hour)
		if synctest.Wait(); added.Load() != 6 {
			t.Errorf("%d were added while nothing was handed over; want 6", added.Load())
		}
		close(release)
		group.Wait()
		ok(t, q.Close(t.Context()))
		if buried.Load() != 20 || most.Load() > 4 {
			t.Errorf("%d were handed over, at most %d at once", buried.Load(), most.Load())
		}
	})
}
