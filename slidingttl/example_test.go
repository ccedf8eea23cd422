package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// clock is a clock that examples move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// newClock starts ahead of the clock by which the driver deletes dead records.
func newClock() *clock { return &clock{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)} }

// An access keeps a record alive, up to its cap.
func Example() {
	d, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	c := newClock()
	store, err := slidingttl.New(d, slidingttl.Policy{
		IdleGrace:   30 * time.Minute,
		MaxLifetime: 12 * time.Hour,
	}, &slidingttl.Options[string]{Now: c.Now})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer store.Close(ctx)

	if err := store.Upsert(ctx, "k", "hello"); err != nil {
		panic(err)
	}
	reads := 0
	for {
		c.now = c.now.Add(20 * time.Minute)
		if _, err := store.Get(ctx, "k"); errors.Is(err, slidingttl.ErrNotFound) {
			break
		}
		reads++
	}
	fmt.Printf("read every 20 minutes, it lived for %d reads\n", reads)
	// Output:
	// read every 20 minutes, it lived for 35 reads
}

// Without slack every access writes. With slack, at most one write is made in each slack, and the
// promise is the same.
func ExamplePolicy_slack() {
	for _, slack := range []time.Duration{0, 3 * time.Minute} {
		d, err := memory.New[int](nil)
		if err != nil {
			panic(err)
		}
		c := newClock()
		store, err := slidingttl.New(d, slidingttl.Policy{
			IdleGrace:   30 * time.Minute,
			MaxLifetime: 12 * time.Hour,
			Slack:       slack,
		}, &slidingttl.Options[int]{Now: c.Now})
		if err != nil {
			panic(err)
		}
		ctx := context.Background()
		if err := store.Upsert(ctx, "k", 1); err != nil {
			panic(err)
		}
		for range 3600 {
			c.now = c.now.Add(time.Second)
			if _, err := store.Get(ctx, "k"); err != nil {
				panic(err)
			}
		}
		fmt.Printf("slack %v: 3600 reads in an hour, %d writes\n", slack, store.Stats().Touched)
		store.Close(ctx)
		d.Close()
	}
	// Output:
	// slack 0s: 3600 reads in an hour, 3600 writes
	// slack 3m0s: 3600 reads in an hour, 19 writes
}

// Update is a compare-and-swap loop and counts as an access.
func ExampleStore_Update() {
	d, err := memory.New[int](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer store.Close(ctx)

	if err := store.Insert(ctx, "visits", 41); err != nil {
		panic(err)
	}
	fmt.Println(store.Update(ctx, "visits", func(n int) (int, error) { return n + 1, nil }))
	_, err = store.Update(ctx, "nobody", func(n int) (int, error) { return n + 1, nil })
	fmt.Println(err)
	fmt.Println(store.Insert(ctx, "visits", 0))
	// Output:
	// 42 <nil>
	// slidingttl: update: not found
	// slidingttl: insert: exists already
}

// Records of one store may have different policies.
func ExampleOptions_policyOf() {
	type session struct {
		User     string
		Remember bool
	}
	short := slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}
	long := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}

	d, err := memory.New[session](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	c := newClock()
	store, err := slidingttl.New(d, short, &slidingttl.Options[session]{
		Now: c.Now,
		PolicyOf: func(s session) slidingttl.Policy {
			if s.Remember {
				return long
			}
			return short
		},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer store.Close(ctx)

	for _, s := range []session{{"ann", false}, {"bob", true}} {
		if err := store.Insert(ctx, s.User, s); err != nil {
			panic(err)
		}
	}
	c.now = c.now.Add(24 * time.Hour)
	for _, user := range []string{"ann", "bob"} {
		_, err := store.Get(ctx, user)
		fmt.Println(user, err)
	}
	// Output:
	// ann slidingttl: get: not found
	// bob <nil>
}

// Peek reads without keeping the record alive: for polling, for lists, for an account page.
func ExampleStore_Peek() {
	d, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	c := newClock()
	store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour},
		&slidingttl.Options[string]{Now: c.Now})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer store.Close(ctx)

	if err := store.Insert(ctx, "k", "hello"); err != nil {
		panic(err)
	}
	for range 4 {
		e, err := store.Peek(ctx, "k")
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(e.Value, "for another", e.ExpiresAt.Time().Sub(c.now))
		c.now = c.now.Add(10 * time.Minute)
	}
	// Output:
	// hello for another 30m0s
	// hello for another 20m0s
	// hello for another 10m0s
	// slidingttl: peek: not found
}
