package gorilla

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// TestRivals: both keep a session alive, for longer than its idle timeout.
func TestRivals(t *testing.T) {
	for _, r := range rivals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			v, err := r.open(server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer v.close()
			sample, err := turn(v.store, server, idleTimeout+time.Second)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(sample)
			if writes := sample["writes"]; r.name == own && writes >= 0.5 || r.name == other && writes != 1 {
				t.Errorf("%.3f writes a read", writes)
			}
		})
	}
}
