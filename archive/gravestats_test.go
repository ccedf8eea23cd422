package archive_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A Grave counts the archived records, each once, and the failures.
func TestGraveStats(t *testing.T) {
	b := newFake()
	through := noon
	g := &archive.Grave{Writer: writer(t, b), Source: "links", Through: func() time.Time { return through }}
	batch := []driver.Dead{
		{Key: "a", At: at(noon), Raw: driver.Raw{Value: []byte("abc")}},
		{Key: "", At: at(noon), Raw: driver.Raw{Value: []byte("de")}}, // which is quarantined
	}
	for range 2 {
		ok(t, g.Bury(t.Context(), batch))
	}
	other := &archive.Grave{Writer: writer(t, crash(b, 0, false)), Source: "links"}
	if err := other.Bury(t.Context(), []driver.Dead{{Key: "b", At: at(noon)}}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if got, want := g.Stats(), (driver.BuryStats{Records: 2, Bytes: 5, Quarantined: 1, Through: noon}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	if got, want := other.Stats(), (driver.BuryStats{Failures: 1}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	if s := other.Writer.Stats(); s.Failures != 1 {
		t.Errorf("%+v", s)
	}
}

// A queue's Through is the first death that it still has to hand over.
func TestQueueThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		q, err := archive.NewQueue(func(context.Context, []driver.Dead) error {
			if down.Load() {
				return errCrash
			}
			return nil
		}, &archive.QueueOptions{Every: time.Minute})
		ok(t, err)
		if lag := time.Since(q.Through()); lag != 0 {
			t.Errorf("an empty queue is %v behind", lag)
		}
		q.Add(driver.Dead{Key: "a", At: at(time.Now())})
		time.Sleep(time.Hour)
		if lag := time.Since(q.Through()); lag != time.Hour {
			t.Errorf("after an hour of failures it is %v behind", lag)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		if lag := time.Since(q.Through()); lag != 0 {
			t.Errorf("a queue that was emptied is %v behind", lag)
		}
		ok(t, q.Close(t.Context()))
	})
}
