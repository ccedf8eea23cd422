package cosmos

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

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

var soakTime = flag.Duration("cosmos.soak", 2*time.Second, "how long TestSoak makes calls")

// diary is a value that names its writes: the one that began the life first.
type diary struct {
	Writes []int64 `json:"writes"`
}

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

var soakPolicy = slidingttl.Policy{IdleGrace: 8 * time.Second, MaxLifetime: 32 * time.Second}

// Several processes read, write and delete some keys while answers are lost, requests are
// throttled and writes meet each other, and time passes twenty times faster. The service's
// clock is hours off theirs. What their answers say must fit together.
func TestSoak(t *testing.T) {
	for _, slack := range []time.Duration{0, 2 * time.Second} {
		policy := soakPolicy
		policy.Slack = slack
		t.Run(fmt.Sprint("slack ", slack), func(t *testing.T) { soak(t, policy) })
	}
}

const (
	soakKeys, soakProcesses, soakClients = 12, 3, 4

	soakOff   = 5 * time.Hour // by how much the processes' clocks are ahead
	soakSpeed = 20            // of time
)

func soak(t *testing.T, policy slidingttl.Policy) {
	account := cosmostest.Start(t)
	account.SetTime(base.Time())
	account.SetThroughput(60_000)
	now := func() time.Time { return account.Now().Add(soakOff) }
	var events [soakKeys]struct {
		sync.Mutex
		all []event
	}
	var ids atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), *soakTime)
	defer stop()
	shape, err := New[diary](&azcosmos.ContainerClient{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	properties := shape.Properties("soak")
	account.Container(t, properties)
	var clients sync.WaitGroup
	for range soakProcesses {
		container, err := account.Client(t, impatient).NewContainer("test", properties.ID)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New[diary](container, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := slidingttl.New[diary](d, policy, &slidingttl.Options[diary]{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(t.Context()) }() // with touches of which the answer was lost
		for range soakClients {
			clients.Go(func() {
				for ctx.Err() == nil {
					key := rand.IntN(soakKeys)
					e := call(t.Context(), s, fmt.Sprint(key), ids.Add(1), now)
					k := &events[key]
					k.Lock()
					k.all = append(k.all, e)
					k.Unlock()
				}
			})
		}
	}
	clients.Go(func() {
		for last := time.Now(); ctx.Err() == nil; wait(ctx, time.Millisecond) {
			passed := time.Since(last)
			last = last.Add(passed)
			account.Advance(passed * soakSpeed)
		}
	})
	clients.Go(func() {
		writes := []cosmostest.Op{cosmostest.OpCreate, cosmostest.OpReplace, cosmostest.OpPatch, cosmostest.OpDelete}
		for n := 0; ctx.Err() == nil; n++ {
			fault := []cosmostest.Fault{
				{Ops: writes, Drop: true, Applied: true},
				{Ops: writes, Drop: true},
				{Ops: writes, Status: statusRetryWith},
				{Ops: writes, Status: 503, Applied: true},
				{Status: 429, RetryAfter: time.Millisecond, Count: 5},
			}[n%5]
			if err := account.Inject(fault); err != nil {
				t.Error(err)
			}
			wait(ctx, 20*time.Millisecond)
		}
	})
	clients.Wait()
	account.ClearFaults()
	account.SetThroughput(0)
	total, found := 0, 0
	for key := range events {
		total += len(events[key].all)
		found += judge(t, policy, events[key].all)
	}
	t.Logf("%d calls, %d records read, in %v of the service's time", total, found, account.Now().Sub(base.Time()))
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
func call(ctx context.Context, s *slidingttl.Store[diary], key string, id int64, now func() time.Time) (e event) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	e = event{id: id, start: now()}
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
	e.end = now()
	return e
}

// judge holds the events of one key against each other and returns how many reads found a
// record.
func judge(t *testing.T, policy slidingttl.Policy, events []event) (found int) {
	const resolution = time.Second
	slices.SortFunc(events, func(a, b event) int { return a.start.Compare(b.start) })
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
	deletedBetween := func(first, then *event) bool {
		return slices.ContainsFunc(deletes, func(d *event) bool {
			return !d.end.Before(first.start) && !d.start.After(then.end)
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
			if !then.start.After(e.end) || then.life() != e.life() {
				continue
			}
			if e.op == "update" && !slices.Contains(then.entry.Value.Writes, e.id) {
				t.Errorf("the update %d is lost: %v", e.id, then.entry.Value.Writes)
			}
		}
		for _, d := range deletes {
			if w := writes[got[0]]; d.err == nil && w != nil && w.err == nil && d.start.After(w.end) && e.start.After(d.end) {
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
		if !expiry.Before(latest.Add(resolution + time.Millisecond)) {
			t.Errorf("an expiry lies %v past what was promised", expiry.Sub(latest))
		}
		for j := range events {
			then := &events[j]
			// Rounded up an expiry may lie past the cap, which then decides.
			if then.op != "read" || !then.start.After(e.end) || !then.end.Before(expiry) || !then.end.Before(limit) || deletedBetween(e, then) {
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
