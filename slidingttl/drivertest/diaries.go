package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// diaries holds the calls of a soak, by key.
type diaries struct {
	now      func() time.Time
	ids      atomic.Int64
	answered atomic.Int64 // calls that did not fail
	found    atomic.Int64 // reads that returned a record
	all      [soakKeys]struct {
		sync.Mutex
		events []event
	}
}

// event is a call and its answer.
type event struct {
	op         string
	id         int64 // of a write
	start, end time.Time
	err        error
	entry      slidingttl.Entry[Diary] // of a read; for an update only the value
}

// may reports whether a write landed or may have landed.
func (e *event) may() bool { return e.err == nil || errors.Is(e.err, slidingttl.ErrAmbiguous) }

// answer reports whether the store has answered.
func (e *event) answer() bool {
	return e.err == nil || errors.Is(e.err, slidingttl.ErrNotFound) || errors.Is(e.err, slidingttl.ErrExists)
}

func (e *event) life() int64 { return e.entry.Value.Writes[0] }

// keep makes calls of s until ctx ends.
func (d *diaries) keep(ctx context.Context, s *slidingttl.Store[Diary]) {
	for ctx.Err() == nil {
		key := rand.IntN(soakKeys)
		e := d.call(context.WithoutCancel(ctx), s, fmt.Sprint(key))
		if e.answer() {
			d.answered.Add(1)
		}
		if e.op == "read" && e.err == nil {
			d.found.Add(1)
		}
		of := &d.all[key]
		of.Lock()
		of.events = append(of.events, e)
		of.Unlock()
	}
}

// call makes one call of a random kind.
func (d *diaries) call(ctx context.Context, s *slidingttl.Store[Diary], key string) (e event) {
	ctx, cancel := context.WithTimeout(ctx, soakTimeout)
	defer cancel()
	e = event{id: d.ids.Add(1), start: d.now()}
	switch n := rand.IntN(1000); {
	case n < 600:
		e.op = "read"
		e.entry, e.err = s.Entry(ctx, key)
	case n < 800:
		e.op = "update"
		e.entry.Value, e.err = s.Update(ctx, key, func(d Diary) (Diary, error) {
			return Diary{append(slices.Clone(d.Writes), e.id)}, nil
		})
	case n < 995:
		e.op = "insert"
		e.err = s.Insert(ctx, key, Diary{[]int64{e.id}})
	default:
		e.op = "delete"
		e.err = s.Delete(ctx, key)
	}
	e.end = d.now()
	return e
}

// judge fails t for answers that contradict each other, and if no read found a record.
func (d *diaries) judge(t testing.TB, r *rules) {
	calls, found := 0, 0
	for i := range d.all {
		events := d.all[i].events
		n, faults := r.judge(events)
		calls += len(events)
		found += n
		if len(faults) > 0 {
			t.Error(strings.Join(faults, "\n"))
		}
	}
	t.Logf("%d calls, %d records read", calls, found)
	if found == 0 {
		t.Error("no record was read")
	}
}
