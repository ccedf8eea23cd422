package slidingttl_test

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// A policy made tighter applies at the next access in memory too. Its clock is coarse while many calls ask
// it: the time is known to 2 s then.
func TestTightenedUnderManyReads(t *testing.T) {
	policy := slidingttl.Policy{IdleGrace: 10 * time.Second, MaxLifetime: time.Hour, Slack: time.Second}
	d, err := memory.New[int](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	s, err := slidingttl.New(d, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_ = s.Upsert(ctx, "k", 1)
	for earliest, latest := d.Bounds(); latest <= earliest+1; earliest, latest = d.Bounds() {
		// until the coarse clock ticks
	}
	_ = s.Upsert(ctx, "k", 1)
	policy.IdleGrace = 8500 * time.Millisecond
	if err := s.SetPolicy(policy); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Lowered; n != 1 {
		t.Errorf("%d expiries were lowered, of one that was 1.5 s beyond the policy", n)
	}
}
