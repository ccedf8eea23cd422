package redis_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

var soakTime = flag.Duration("redis.soak", 3*time.Second, "how long TestSoak makes calls")

// diary is a value that names its writes: the one that began the life first.
type diary struct{ Writes []int64 }

// event is a call and its answer.
type event struct {
	op         string
	id         int64 // of a write
	start, end time.Time
	err        error
	entry      slidingttl.Entry[diary] // of a read; of an update the value
}

// may reports whether a write has landed, or may have.
func (e *event) may() bool { return e.err == nil || errors.Is(e.err, slidingttl.ErrAmbiguous) }

func (e *event) life() int64 { return e.entry.Value.Writes[0] }

var soakPolicy = slidingttl.Policy{IdleGrace: 400 * time.Millisecond, MaxLifetime: 1600 * time.Millisecond}

// Several processes read, write and delete some keys, while answers are lost and in the
// middle a replica takes over. What their answers say must fit together.
func TestSoak(t *testing.T) {
	for _, slack := range []time.Duration{0, 100 * time.Millisecond} {
		policy := soakPolicy
		policy.Slack = slack
		t.Run(fmt.Sprint("slack ", slack), func(t *testing.T) { soak(t, policy) })
	}
}

const soakKeys, soakProcesses, soakClients = 12, 3, 4

func soak(t *testing.T, policy slidingttl.Policy) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	proxy := redistest.NewProxy(t)
	var events [soakKeys]struct {
		sync.Mutex
		all []event
	}
	var ids atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), *soakTime)
	defer stop()
	var clients sync.WaitGroup
	for range soakProcesses {
		d := open[diary](t, redistest.NewClient(t, proxy.Option(primary.Option())), redis.Options{})
		// All go by the same clock, so that what is owed can be told to the millisecond.
		s, err := slidingttl.New(d, policy, &slidingttl.Options[diary]{Now: time.Now})
		ok(t, "slidingttl.New", err)
		defer s.Close(t.Context())
		for range soakClients {
			clients.Go(func() {
				for ctx.Err() == nil {
					key := rand.IntN(soakKeys)
					e := call(t.Context(), s, fmt.Sprint(key), ids.Add(1))
					k := &events[key]
					k.Lock()
					k.all = append(k.all, e)
					k.Unlock()
				}
			})
		}
	}
	clients.Go(func() {
		for ctx.Err() == nil {
			proxy.Lose(1)
			wait(ctx, 10*time.Millisecond)
		}
	})
	wait(ctx, *soakTime/2)
	lost := failOver(t, primary, replica, proxy)
	clients.Wait()
	total, found := 0, 0
	for key := range events {
		total += len(events[key].all)
		found += judge(t, policy, events[key].all, lost)
	}
	t.Logf("%d calls, %d records read; what was written in the %v before the failover may be lost", total, found, lost.end.Sub(lost.start))
	if found == 0 {
		t.Error("no record was read")
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// call makes one call of a random kind.
func call(ctx context.Context, s *slidingttl.Store[diary], key string, id int64) (e event) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	e = event{id: id, start: time.Now()}
	switch n := rand.IntN(1000); {
	case n < 600:
		e.op = "read"
		e.entry, e.err = s.Entry(ctx, key)
	case n < 800:
		e.op = "update"
		e.entry.Value, e.err = s.Update(ctx, key, func(d diary) (diary, error) {
			return diary{append(slices.Clone(d.Writes), id)}, nil
		})
	case n < 995:
		e.op = "insert"
		e.err = s.Insert(ctx, key, diary{[]int64{id}})
	default:
		e.op = "delete"
		e.err = s.Delete(ctx, key)
	}
	e.end = time.Now()
	return e
}

// span is a time.
type span struct{ start, end time.Time }

// meets reports whether e may have been answered in s: a client may note that later.
func (s span) meets(e *event) bool { return !e.end.Before(s.start) && !e.start.After(s.end) }

// failOver makes the replica the primary of all clients, and returns when what was
// answered may be lost: since the replica was last known to have everything.
func failOver(t *testing.T, primary, replica *redistest.Server, proxy *redistest.Proxy) (lost span) {
	admin := primary.Client(t)
	lost.start = time.Now()
	ok(t, "WAIT", admin.Do(t.Context(), admin.B().Wait().Numreplicas(1).Timeout(0).Build()).Error())
	wait(t.Context(), 20*time.Millisecond) // some more is written
	replica.Promote(t)
	proxy.Redirect(primary.Addr, replica.Addr)
	ok(t, "Close", primary.Close())
	proxy.Cut()
	lost.end = time.Now()
	return lost
}

// straggler is how long after its connection closed a call may still be carried out.
const straggler = time.Second

// judge holds the events of one key against each other and returns how many reads found
// a record. Answers of the time lost bind nobody after it.
func judge(t *testing.T, policy slidingttl.Policy, events []event, lost span) (found int) {
	slices.SortFunc(events, func(a, b event) int { return a.start.Compare(b.start) })
	forgotten := func(first, then *event) bool { return lost.meets(first) && then.end.After(lost.start) }
	writes := make(map[int64]*event)
	var deletes, seen []*event
	for i := range events {
		e := &events[i]
		writes[e.id] = e
		switch {
		case e.op == "delete" && e.may():
			deletes = append(deletes, e)
		case (e.op == "read" || e.op == "update") && e.err == nil:
			seen = append(seen, e)
		}
	}
	// deletedBetween reports whether a delete may have come between two events.
	deletedBetween := func(first, then *event) bool {
		return slices.ContainsFunc(deletes, func(d *event) bool {
			end := d.end
			if d.err != nil {
				end = end.Add(straggler)
			}
			return end.After(first.start) && d.start.Before(then.end)
		})
	}
	for i, e := range seen {
		got := e.entry.Value.Writes
		for n, id := range got {
			if w := writes[id]; w == nil || !w.may() || w.start.After(e.end) || slices.Contains(got[:n], id) {
				t.Errorf("a record holds the write %d of %v, which failed, is to come, or is there already", id, got)
			}
		}
		for _, then := range seen[i+1:] {
			if then.start.Before(e.end) || then.life() != e.life() || forgotten(e, then) {
				continue
			}
			if e.op == "update" && !slices.Contains(then.entry.Value.Writes, e.id) {
				t.Errorf("the update %d is lost: %v", e.id, then.entry.Value.Writes)
			}
		}
		for _, d := range deletes {
			if w := writes[got[0]]; d.err == nil && d.start.After(w.end) && w.err == nil && e.start.After(d.end) && !lost.meets(d) {
				t.Errorf("the record that write %d began was deleted, and is back", got[0])
			}
		}
		if e.op != "read" {
			continue
		}
		found++
		limit := e.entry.CreatedAt.Time().Add(policy.MaxLifetime)
		if !e.start.Before(limit) {
			t.Errorf("a record was read %v past its cap", e.start.Sub(limit))
		}
		expiry := e.entry.ExpiresAt.Time()
		latest := e.end.Add(policy.IdleGrace + policy.Slack)
		if limit.Before(latest) {
			latest = limit
		}
		if expiry.After(latest.Add(2 * time.Millisecond)) {
			t.Errorf("an expiry lies %v past what was promised", expiry.Sub(latest))
		}
		for j := range events {
			then := &events[j]
			if then.op != "read" || !then.start.After(e.end) || !then.end.Before(expiry) || deletedBetween(e, then) || forgotten(e, then) {
				continue
			}
			switch {
			case errors.Is(then.err, slidingttl.ErrNotFound):
				t.Errorf("a record is gone %v before the expiry that was read", expiry.Sub(then.end))
			case then.err != nil: // the store could not be asked
			case then.life() != e.life() || then.entry.CreatedAt != e.entry.CreatedAt || then.entry.ExpiresAt < e.entry.ExpiresAt:
				t.Errorf("a record with %+v, of write %d, has become one with %+v, of write %d, while it was alive", e.entry.Meta, e.life(), then.entry.Meta, then.life())
			}
		}
	}
	return found
}
