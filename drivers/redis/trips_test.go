package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Each cell of the README's table of trips, as the client counts them.
func TestRoundTrips(t *testing.T) {
	exact := slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}
	slack := exact
	slack.Slack = 3 * time.Minute
	type store = *slidingttl.Store[profile]
	get := func(ctx context.Context, s store) error {
		_, err := s.Get(ctx, "k")
		return err
	}
	upsert := func(ctx context.Context, s store) error { return s.Upsert(ctx, "k", profile{}) }
	touch := func(ctx context.Context, s store) error {
		_, err := s.Touch(ctx, "k")
		return err
	}
	for _, c := range []struct {
		name    string
		policy  slidingttl.Policy
		absent  bool // start without the record
		fresh   bool // act by a store that has seen nothing
		after   time.Duration
		touches slidingttl.TouchMode
		act     func(context.Context, store) error
		want    int64
		writes  int
	}{
		{name: "get not due", policy: slack, act: get, want: 1},
		{name: "get not due, not remembered", policy: slack, fresh: true, act: get, want: 1},
		{name: "get due, foreseen by what is remembered", policy: slack, after: 4 * time.Minute, act: get, want: 1, writes: 2},
		{name: "get due, exact", policy: exact, after: time.Second, fresh: true, act: get, want: 1, writes: 2},
		{name: "get due, not foreseen", policy: slack, after: 4 * time.Minute, fresh: true, act: get, want: 2, writes: 2},
		{name: "get due, in the background", policy: slack, after: 4 * time.Minute, touches: slidingttl.Background, act: get, want: 2, writes: 2},
		{name: "get absent", policy: slack, absent: true, act: func(ctx context.Context, s store) error {
			if err := get(ctx, s); !errors.Is(err, slidingttl.ErrNotFound) {
				return errors.Join(errors.New("got an absent record"), err)
			}
			return nil
		}, want: 1},
		{name: "insert", policy: slack, absent: true, act: func(ctx context.Context, s store) error { return s.Insert(ctx, "k", profile{}) }, want: 1, writes: 1},
		{name: "upsert of a new key", policy: slack, absent: true, act: upsert, want: 1, writes: 1},
		{name: "upsert of a live key that is remembered", policy: slack, act: upsert, want: 1, writes: 1},
		{name: "upsert of a live key", policy: slack, fresh: true, act: upsert, want: 1, writes: 1},
		{name: "upsert of a live key that is due", policy: slack, after: 4 * time.Minute, fresh: true, act: upsert, want: 1, writes: 1},
		{name: "update", policy: slack, fresh: true, act: func(ctx context.Context, s store) error {
			_, err := s.Update(ctx, "k", func(p profile) (profile, error) { return p, nil })
			return err
		}, want: 2, writes: 1},
		{name: "touch by key, due", policy: slack, after: 4 * time.Minute, fresh: true, act: touch, want: 1, writes: 2},
		{name: "touch by key, not due", policy: slack, fresh: true, act: touch, want: 1},
		{name: "get multi", policy: slack, act: func(ctx context.Context, s store) error {
			_, err := s.GetMulti(ctx, []string{"k", "l", "m"})
			return err
		}, want: 1},
		{name: "delete", policy: slack, act: func(ctx context.Context, s store) error { return s.Delete(ctx, "k") }, want: 1, writes: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, redis.Options{})
			now := time.Now()
			opts := slidingttl.Options[profile]{Now: func() time.Time { return now }, Touches: c.touches, TouchWait: time.Minute}
			open := func() store {
				s, err := slidingttl.New[profile](f.d, c.policy, &opts)
				ok(t, "slidingttl.New", err)
				return s
			}
			// Calls on another record load the scripts into the server.
			warm := open()
			for _, err := range []error{warm.Insert(t.Context(), "warm", profile{}), warm.Delete(t.Context(), "warm")} {
				ok(t, "warming up", err)
			}
			was := f.record(t, "warm")
			_, _, err := f.d.ReadTouch(t.Context(), "warm", nil, anAccess(), was.CreatedAt)
			ok(t, "ReadTouch", err)
			_, _ = f.d.Touch(t.Context(), "warm", was.Meta, was.Life, was.CreatedAt)
			_, err = f.d.Overwrite(t.Context(), "warm", profile{}, was.Life, anAccess(), was.CreatedAt)
			ok(t, "Overwrite", err)
			s := warm
			if !c.absent {
				ok(t, "Insert", s.Insert(t.Context(), "k", profile{}))
			}
			if c.fresh {
				s = open()
			}
			now = now.Add(c.after)
			before := f.writes(t)
			trips := f.client.during(func() {
				ok(t, c.name, c.act(t.Context(), s))
				ok(t, "Close", s.Close(t.Context())) // touches in the background
			})
			if writes := f.writes(t) - before; trips != c.want || writes != c.writes {
				t.Errorf("%d trips and %d commands that write; want %d and %d", trips, writes, c.want, c.writes)
			}
			ok(t, "Close", warm.Close(t.Context()))
		})
	}
}

// A server that does not have the script costs a batch of other programs' records one more trip for each
// pipeline, not one for each record.
func TestTripsOfBatchWithoutScript(t *testing.T) {
	f := newFixture(t, redis.Options{})
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		f.command(t, "SET", keys[i], `{"name":"theirs"}`)
	}
	f.command(t, "SCRIPT", "FLUSH")
	_, err := f.d.Get(t.Context(), "none") // asks for the time
	if !errors.Is(err, driver.ErrNotFound) {
		t.Fatalf("Get: %v", err)
	}
	var found map[string]driver.Entry[profile]
	trips := f.client.during(func() {
		found, err = f.d.GetMulti(t.Context(), keys)
		ok(t, "GetMulti", err)
	})
	if len(found) != len(keys) || trips != 3 {
		t.Errorf("GetMulti has %d of %d records after %d trips; want 3", len(found), len(keys), trips)
	}
}
