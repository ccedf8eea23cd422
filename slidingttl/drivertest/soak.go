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

// Diary is the value of a [Soak]: the writes that made it, the one that began the life
// first.
type Diary struct {
	Writes []int64 `json:"writes"`
}

// Soak has several stores, as if in several processes, read, write and delete a few records
// of one backend, and holds their answers against each other. Meanwhile the test disturbs
// what is below: loses answers, throttles, lets a replica take over.
type Soak struct {
	Policy     slidingttl.Policy // that of all stores
	Resolution time.Duration     // of expiries in the backend

	// Now is the clock of all stores, so that what is owed can be told to the
	// millisecond. Nil: time.Now.
	Now func() time.Time

	// Straggler is how long after its answer was lost a call may still be carried out.
	Straggler time.Duration

	ids       atomic.Int64
	histories [soakKeys]history
}

// Span is a time in which what was answered may be lost: since a replica that took over was
// last known to have everything.
type Span struct{ Start, End time.Time }

const (
	soakKeys    = 12
	soakClients = 4                // of each store
	soakTimeout = 10 * time.Second // of a call
)

// history is what was called for one key.
type history struct {
	sync.Mutex
	events []event
}

// event is a call and its answer.
type event struct {
	op         string
	id         int64 // of a write
	start, end time.Time
	err        error
	entry      slidingttl.Entry[Diary] // of a read; of an update the value
}

// Run makes calls until ctx ends, and returns when they are answered.
func (s *Soak) Run(ctx context.Context, stores ...*slidingttl.Store[Diary]) {
	var clients sync.WaitGroup
	for _, store := range stores {
		for range soakClients {
			clients.Go(func() {
				for ctx.Err() == nil {
					key := rand.IntN(soakKeys)
					e := s.call(context.WithoutCancel(ctx), store, fmt.Sprint(key))
					h := &s.histories[key]
					h.Lock()
					h.events = append(h.events, e)
					h.Unlock()
				}
			})
		}
	}
	clients.Wait()
}

// call makes one call of a random kind.
func (s *Soak) call(ctx context.Context, store *slidingttl.Store[Diary], key string) (e event) {
	ctx, cancel := context.WithTimeout(ctx, soakTimeout)
	defer cancel()
	now := s.Now
	if now == nil {
		now = time.Now
	}
	e = event{id: s.ids.Add(1), start: now()}
	switch n := rand.IntN(1000); {
	case n < 600:
		e.op = "read"
		e.entry, e.err = store.Entry(ctx, key)
	case n < 800:
		e.op = "update"
		e.entry.Value, e.err = store.Update(ctx, key, func(d Diary) (Diary, error) {
			return Diary{append(slices.Clone(d.Writes), e.id)}, nil
		})
	case n < 995:
		e.op = "insert"
		e.err = store.Insert(ctx, key, Diary{[]int64{e.id}})
	default:
		e.op = "delete"
		e.err = store.Delete(ctx, key)
	}
	e.end = now()
	return e
}

// Judge fails t for each two answers that do not fit together, and where no read found a
// record. What was answered in lost binds nobody after it.
func (s *Soak) Judge(t testing.TB, lost ...Span) {
	t.Helper()
	calls, found := 0, 0
	for i := range s.histories {
		events := s.histories[i].events
		n, faults := s.judge(events, lost)
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

// may reports whether a write has landed, or may have.
func (e *event) may() bool { return e.err == nil || errors.Is(e.err, slidingttl.ErrAmbiguous) }

func (e *event) life() int64 { return e.entry.Value.Writes[0] }

// meets reports whether e may have been answered in s: a client may note that later.
func (s Span) meets(e *event) bool { return !e.end.Before(s.Start) && !e.start.After(s.End) }
