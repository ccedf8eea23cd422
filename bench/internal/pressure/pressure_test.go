package pressure

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// simulated is a task that a strategy has done.
func simulated(t *testing.T, s strategy, todo task) (got runner.Sample) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if got, err = simulate(s, todo); err != nil {
			t.Fatal(err)
		}
	})
	return got
}

// What inline does is known beforehand, and is what the figures are to show.
func TestInlineSuffers(t *testing.T) {
	own, inline := strategies[0], strategies[1]
	todo := task{Kind: herdKind, Nodes: 8, Length: 2 * time.Minute}
	if got := simulated(t, inline, todo)["writes-per-needed"]; got < 4 {
		t.Errorf("inline: %v writes a touch with 8 processes", got)
	}
	if got := simulated(t, own, todo)["writes-per-needed"]; got > 2 {
		t.Errorf("%v writes a touch with 8 processes", got)
	}
	todo = task{Kind: latencyKind, Nodes: 1, Idle: 30 * time.Minute, Throttled: time.Minute, Keys: 200, Rate: 50, Length: time.Minute}
	if got := simulated(t, inline, todo)["p50"]; got < 1000 {
		t.Errorf("inline: reads take %v ms while the store is throttled", got)
	}
	if got := simulated(t, own, todo)["p50"]; got > 25 {
		t.Errorf("reads take %v ms while the store is throttled", got)
	}
	todo = task{Kind: recoveryKind, Nodes: 1, Idle: 6 * time.Minute, Throttled: time.Minute, Keys: 1000, Rate: 100}
	if got := simulated(t, inline, todo)["early"]; got == 0 {
		t.Error("inline: no record dies early")
	}
	todo = task{Kind: budgetKind, Nodes: 2, Idle: 6 * time.Minute, Keys: 500, Rate: 50, Budget: 1, Length: 6 * time.Minute}
	if got := simulated(t, inline, todo)["budgets"]; got < 1.5 {
		t.Errorf("inline: %v budgets", got)
	}
}

// On a wire the store refuses touches for two seconds of three.
func TestOnRedis(t *testing.T) {
	server := redistest.Start(t)
	got, err := simulate(strategies[0], task{Kind: latencyKind, Nodes: 1, Idle: 30 * time.Minute, Throttled: 2 * time.Second,
		Keys: 100, Rate: 50, Length: 3 * time.Second, Address: server.Addr})
	if err != nil {
		t.Fatal(err)
	}
	if got["p50"] > 2000 || got["max"] == 0 {
		t.Errorf("reads took %v", got)
	}
}
