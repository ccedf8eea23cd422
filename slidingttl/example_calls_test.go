package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// example opens the store of the examples below.
func example(opts *slidingttl.Options[string]) (store *slidingttl.Store[string], end func()) {
	d, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	store, err = slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}, opts)
	if err != nil {
		panic(err)
	}
	return store, func() {
		if err := store.Close(context.Background()); err != nil {
			panic(err)
		}
		d.Close()
	}
}

// Touch waits, and returns until when the record lives; Keep is for a value that was read by
// other means.
func ExampleStore_Touch() {
	c := newClock()
	store, end := example(&slidingttl.Options[string]{Now: c.Now})
	defer end()
	ctx := context.Background()
	if err := store.Insert(ctx, "k", "hello"); err != nil {
		panic(err)
	}
	c.now = c.now.Add(20 * time.Minute)
	until, err := store.Touch(ctx, "k")
	fmt.Println("alive for", until.Sub(c.now), err)
	c.now = c.now.Add(20 * time.Minute)
	fmt.Println("kept:", store.Keep(ctx, "k"))
	c.now = c.now.Add(30 * time.Minute)
	fmt.Println("kept:", store.Keep(ctx, "k"))
	// Output:
	// alive for 30m0s <nil>
	// kept: <nil>
	// kept: slidingttl: touch: not found
}

// A key that cannot be read is reported by its index; the others get their answer.
func ExampleStore_GetMulti() {
	store, end := example(nil)
	defer end()
	ctx := context.Background()
	if err := store.UpsertMulti(ctx, []slidingttl.Item[string]{{Key: "a", Value: "apple"}, {Key: "b", Value: "pear"}}); err != nil {
		panic(err)
	}
	values, err := store.GetMulti(ctx, []string{"a", "", "b", "none"})
	fmt.Println(values)
	var failed slidingttl.KeyErrors
	if errors.As(err, &failed) {
		for _, f := range failed {
			fmt.Println(f.Index, f.Err)
		}
	}
	// Output:
	// map[a:apple b:pear]
	// 1 key is empty: must have at least one byte
}

// Of several callers that find no record one inserts what it has loaded.
func ExampleStore_GetOrInsert() {
	store, end := example(nil)
	defer end()
	for range 2 {
		v, inserted, err := store.GetOrInsert(context.Background(), "k", func(context.Context) (string, error) {
			return "loaded", nil
		})
		fmt.Println(v, inserted, err)
	}
	// Output:
	// loaded true <nil>
	// loaded false <nil>
}

// DeleteEntry deletes the record that was read or written, and not one written since.
func ExampleStore_DeleteEntry() {
	store, end := example(nil)
	defer end()
	ctx := context.Background()
	mine, err := store.UpsertEntry(ctx, "k", "mine")
	fmt.Println(mine.Value, err)
	if err := store.Upsert(ctx, "k", "another's"); err != nil {
		panic(err)
	}
	fmt.Println(store.DeleteEntry(ctx, "k", mine))
	// Output:
	// mine <nil>
	// slidingttl: delete: conflict
}

// Check reports at start-up a store that cannot keep the policy's promises. It returns nil on a
// driver without configuration.
func ExampleStore_Check() {
	store, end := example(nil)
	defer end()
	fmt.Println(store.Check(context.Background()))
	// Output:
	// <nil>
}

// Close waits for touches under way; after it every call fails.
func ExampleStore_Close() {
	store, end := example(nil)
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(store.Close(ctx))
	_, err := store.Get(ctx, "k")
	fmt.Println(errors.Is(err, slidingttl.ErrClosed), err)
	// Output:
	// <nil>
	// true slidingttl: get: store is closed
}

// An Observer counts what Stats does not distinguish.
func ExampleObserver() {
	reads := map[slidingttl.ReadOutcome]int{} // calls come one at a time here
	store, end := example(&slidingttl.Options[string]{Observer: &slidingttl.Observer{
		Read: func(_ context.Context, e slidingttl.ReadEvent) { reads[e.Outcome]++ },
	}})
	defer end()
	ctx := context.Background()
	_, _ = store.Get(ctx, "k")
	if err := store.Insert(ctx, "k", "hello"); err != nil {
		panic(err)
	}
	_, _ = store.Get(ctx, "k")
	_, _ = store.Get(ctx, "k")
	fmt.Println(reads[slidingttl.ReadHit], "hits,", reads[slidingttl.ReadAbsent], "absent")
	// Output:
	// 2 hits, 1 absent
}

// Tenants are distinguished by their keys, without reading a value.
func ExampleOptions_policyFor() {
	c := newClock()
	store, end := example(&slidingttl.Options[string]{
		Now: c.Now,
		PolicyFor: func(key string) slidingttl.Policy {
			if strings.HasPrefix(key, "gold:") {
				return slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: slidingttl.NoCap}
			}
			return slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 12 * time.Hour}
		},
	})
	defer end()
	ctx := context.Background()
	for _, key := range []string{"gold:ann", "free:bob"} {
		e, err := store.UpsertEntry(ctx, key, "hello")
		if err != nil {
			panic(err)
		}
		fmt.Println(key, "lives for", e.ExpiresAt.Time().Sub(c.now))
	}
	// Output:
	// gold:ann lives for 720h0m0s
	// free:bob lives for 1h0m0s
}

// A tightened policy applies on a record's next access.
func ExampleStore_SetPolicy() {
	c := newClock()
	store, end := example(&slidingttl.Options[string]{Now: c.Now, MaxSkew: time.Second})
	defer end()
	ctx := context.Background()
	left := func() time.Duration {
		e, err := store.Peek(ctx, "k")
		if err != nil {
			panic(err)
		}
		return e.ExpiresAt.Time().Sub(c.now)
	}
	if err := store.Insert(ctx, "k", "hello"); err != nil {
		panic(err)
	}
	if err := store.SetPolicy(slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: time.Hour}); err != nil {
		panic(err)
	}
	fmt.Println("before the next access", left())
	if _, err := store.Get(ctx, "k"); err != nil {
		panic(err)
	}
	fmt.Println("after it, by the skew of clocks more,", left())
	// Output:
	// before the next access 30m0s
	// after it, by the skew of clocks more, 5m1s
}

// links is a repository with its own access to its store.
type links map[string]string

func (l links) Get(_ context.Context, id string) (string, error) {
	if v, ok := l[id]; ok {
		return v, nil
	}
	return "", errors.New("no such link")
}

func (l links) Upsert(_ context.Context, id, v string) error {
	l[id] = v
	return nil
}

// An existing repository is wrapped. Here its values are in a map, and their lives in a store
// beside it; usually both are one record of one store.
func ExampleWrap() {
	c := newClock()
	lives, end := example(&slidingttl.Options[string]{Now: c.Now})
	defer end()
	ctx := context.Background()
	repo := links{"go": "https://go.dev"}
	wrapped, err := slidingttl.Wrap(repo, lives, func(id string) string { return "link:" + id }, nil)
	if err != nil {
		panic(err)
	}
	if err := lives.Insert(ctx, "link:go", ""); err != nil {
		panic(err)
	}
	for range 3 {
		c.now = c.now.Add(20 * time.Minute)
		v, err := wrapped.Get(ctx, "go")
		fmt.Println(v, err)
	}
	c.now = c.now.Add(30 * time.Minute)
	_, err = wrapped.Get(ctx, "go")
	fmt.Println(err)
	// Output:
	// https://go.dev <nil>
	// https://go.dev <nil>
	// https://go.dev <nil>
	// slidingttl: get: not found
}
