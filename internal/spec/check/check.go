// Package check runs the vectors of package spec against drivers, and against the store over them.
package check

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/spec"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Value is the type of the records.
type Value struct {
	V string `json:"v" dynamodbav:"v"`
}

// Store is a store of any kind, and today's driver over it.
type Store struct {
	Driver driver.Driver[Value]
	Local  bool // no J is drawn, because the store is one process's memory

	// Plant writes a record as another program does; expires is zero for none.
	Plant func(ctx context.Context, key string, v Value, expires driver.Instant) error
}

func load[C any](t *testing.T, name string) []C {
	t.Helper()
	all, err := spec.Load[C](name)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func policyOf(p spec.Policy) slidingttl.Policy {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return slidingttl.Policy{IdleGrace: ms(p.Idle), MaxLifetime: ms(p.Max), Slack: ms(p.Slack), MaxSlack: ms(p.MaxSlack), Promote: p.Promote}
}

func lifeOf(l *spec.Life) driver.Life {
	return driver.Life{CreatedAt: driver.Instant(l.Created), ExpiresAt: driver.Instant(l.Expires)}
}

// of reports whether the vectors for steps of step ms are for s.
func (s Store) of(step int64) bool {
	return s.Driver.Resolution() == time.Duration(step)*time.Millisecond
}

// Decisions makes each call of decisions.json by a store that has seen nothing before.
func (s Store) Decisions(t *testing.T) {
	for i, c := range load[spec.Decision](t, "decisions") {
		rule := spec.Rule{Policy: c.Policy, Step: c.Step, Skew: c.Skew}
		_, alone := rule.Decide(c.Do, c.Foreign, c.Stored, c.Now, 0)
		_, shared := rule.Decide(c.Do, c.Foreign, c.Stored, c.Now, rule.Share())
		if !s.of(c.Step) || c.Early != 0 || !s.Local && (alone == nil) != (shared == nil) {
			continue
		}
		t.Run(c.Name+", "+c.Do+" "+c.Foreign, func(t *testing.T) {
			t.Parallel()
			k := s.open(t, fmt.Sprintf("decision-%d", i), c.Policy, c.Skew, c.Foreign)
			if c.Stored != nil {
				k.put(t, c.Stored)
			}
			want := c.Stored
			if c.Writes != nil {
				want = c.Writes
			}
			k.call(t, spec.Call{At: c.Now, Do: c.Do, Value: "v1", Answer: c.Answer, Stored: want})
		})
	}
}

// Histories makes the calls of histories.json.
func (s Store) Histories(t *testing.T) {
	for i, h := range load[spec.History](t, "histories") {
		if !s.of(h.Step) {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			k := s.open(t, fmt.Sprintf("history-%d", i), *h.Calls[0].Policy, h.Skew, spec.Adopt)
			for n, c := range h.Calls {
				if c.Policy != nil {
					if err := k.store.SetPolicy(policyOf(*c.Policy)); err != nil {
						t.Fatal(err)
					}
				}
				if k.call(t, c); t.Failed() {
					t.Fatalf("that was call %d of %+v", n, h)
				}
			}
		})
	}
}

// key is a key of a store whose clock stands still.
type key struct {
	Store
	store *slidingttl.Store[Value]
	name  string
	now   time.Time
}

func (s Store) open(t *testing.T, name string, p spec.Policy, skew int64, foreign string) *key {
	t.Helper()
	k := &key{Store: s, name: name}
	store, err := slidingttl.New(s.Driver, policyOf(p), &slidingttl.Options[Value]{
		Now:     func() time.Time { return k.now },
		MaxSkew: time.Duration(skew) * time.Millisecond,
		Foreign: map[string]slidingttl.Foreign{spec.ReadOnly: slidingttl.ReadOnly, spec.Reject: slidingttl.Reject}[foreign],
		Strict:  true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	k.store = store
	return k
}

// put stores a record with the value v1.
func (k *key) put(t *testing.T, l *spec.Life) {
	t.Helper()
	ctx, v := driver.WithOtherClock(t.Context()), Value{"v1"}
	var err error
	if l.Created == 0 {
		err = k.Plant(ctx, k.name, v, driver.Instant(l.Expires))
	} else {
		_, err = k.Driver.Insert(ctx, k.name, v, lifeOf(l), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// call makes a call, and wants its answer and what is stored after it.
func (k *key) call(t *testing.T, c spec.Call) {
	t.Helper()
	ctx := t.Context()
	k.now = time.UnixMilli(c.At)
	v := Value{c.Value}
	var err error
	switch c.Do {
	case spec.Get:
		v, err = k.store.Get(ctx, k.name)
	case spec.Peek:
		_, err = k.store.Peek(ctx, k.name)
	case spec.Insert:
		err = k.store.Insert(ctx, k.name, v)
	case spec.Upsert:
		err = k.store.Upsert(ctx, k.name, v)
	case spec.Retire:
		err = k.store.Retire(ctx, k.name)
	case spec.Delete:
		err = k.store.Delete(ctx, k.name)
	case spec.Plant:
		err = k.Plant(ctx, k.name, v, driver.Instant(c.Stored.Expires))
	default:
		t.Fatalf("no such call: %q", c.Do)
	}
	if answer := answerOf(err); answer != c.Answer {
		t.Errorf("%s at %d answers %q (%v), want %q", c.Do, c.At, answer, err, c.Answer)
	}
	if c.Do == spec.Get && err == nil && v.V != c.Value {
		t.Errorf("get at %d has %q, want %q", c.At, v.V, c.Value)
	}
	get := k.Driver.Get
	if latest, ok := driver.As[driver.Latest[Value]](k.Driver); ok {
		get = latest.Latest
	}
	switch e, err := get(ctx, k.name); {
	case errors.Is(err, driver.ErrNotFound):
		if c.Stored != nil && (c.Stored.Expires == 0 || c.Stored.Expires > c.At) {
			t.Errorf("after %s at %d nothing is stored, want %+v", c.Do, c.At, *c.Stored)
		}
	case err != nil:
		t.Errorf("after %s at %d: %v", c.Do, c.At, err)
	case c.Stored == nil:
		t.Errorf("after %s at %d %+v is stored, want nothing", c.Do, c.At, e.Life)
	case e.Life != lifeOf(c.Stored):
		t.Errorf("after %s at %d %+v is stored, want %+v", c.Do, c.At, e.Life, *c.Stored)
	}
}

func answerOf(err error) string {
	switch {
	case err == nil:
		return spec.OK
	case errors.Is(err, slidingttl.ErrNotFound):
		return spec.NotFound
	case errors.Is(err, slidingttl.ErrForeign):
		return spec.Foreign
	case errors.Is(err, slidingttl.ErrExists), errors.Is(err, slidingttl.ErrConflict):
		return spec.Exists
	}
	return "another error"
}
