package follow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// An adoption that leaves the store no room makes live calls wait, as the figures are to show, and one that
// follows the load does not.
func TestFullStore(t *testing.T) {
	run := func(todo task) (got runner.Sample) {
		todo.Live, todo.Length, todo.Seed = 100, 3*time.Minute, 1
		synctest.Test(t, func(t *testing.T) {
			var err error
			if got, err = simulate(todo); err != nil {
				t.Fatal(err)
			}
		})
		return got
	}
	alone, full, following := run(task{Alone: true}), run(task{}), run(task{Follow: true})
	if full["p99-us"] < 3*alone["p99-us"] || full["writes-per-s"] < 300 {
		t.Errorf("without a ceiling: %v; alone: %v", full, alone)
	}
	if following["p99-us"] > 1.3*alone["p99-us"] || following["writes-per-s"] < 20 {
		t.Errorf("following: %v; alone: %v", following, alone)
	}
}

// A server is only there to be measured.
func TestServers(t *testing.T) {
	for _, todo := range []task{{Server: onRedis, Live: 200}, {Server: onPostgres, Live: 50}} {
		todo.Keys, todo.Length, todo.Writes, todo.Seed = 1000, 3*time.Second, 100, 1
		got, err := wired(todo)
		if err != nil {
			t.Fatal(err)
		}
		if got["p99-us"] == 0 || got["writes-per-s"] < 20 || got["writes-per-s"] > 110 {
			t.Errorf("%s: %v", todo.Server, got)
		}
	}
}
