package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// A client that asks a sentinel for the primary continues with the promoted replica. A read
// meanwhile waits for it, and the record lives on.
func TestSentinel(t *testing.T) {
	primary := redistest.Start(t)
	primary.StartReplica(t)
	client := primary.StartSentinel(t).Client(t)
	d := open[profile](t, client, redis.Options{})
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}
	s, err := slidingttl.New(d, policy, nil)
	ok(t, "slidingttl.New", err)
	defer s.Close(t.Context())
	was, err := s.InsertEntry(t.Context(), "a", profile{"kept"})
	ok(t, "InsertEntry", err)
	ok(t, "WAIT", client.Do(t.Context(), client.B().Wait().Numreplicas(1).Timeout(0).Build()).Error())

	ok(t, "Close of the primary", primary.Close())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := s.Entry(ctx, "a") // due, for the policy has no slack
	ok(t, "Entry during the failover", err)
	if e.Value.Name != "kept" || e.CreatedAt != was.CreatedAt || e.Version != was.Version {
		t.Errorf("the replica holds %+v; want %+v", e, was)
	}
	ok(t, "Upsert after the failover", s.Upsert(ctx, "a", profile{"anew"}))
	if e, err = s.Entry(ctx, "a"); err != nil || e.Value.Name != "anew" || e.CreatedAt != was.CreatedAt || e.ExpiresAt <= was.ExpiresAt {
		t.Errorf("after the failover: %+v, %v", e, err)
	}
}
