package redistest

import (
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// Virtual is a miniredis whose clock moves only when the test moves it. Its methods are safe for
// concurrent use.
type Virtual struct {
	server *miniredis.Miniredis
	mu     sync.Mutex // guards now
	now    time.Time
}

// StartVirtual returns a server of the test's own, at the present time. It stops when the
// test ends.
func StartVirtual(t testing.TB) *Virtual {
	t.Helper()
	v := &Virtual{server: miniredis.RunT(t), now: time.Now().Truncate(time.Millisecond)}
	v.server.SetTime(v.now)
	return v
}

// Option returns what a client needs to connect to the server. As with [Server.Option] the
// client does not probe for a cluster.
func (v *Virtual) Option() rueidis.ClientOption {
	// miniredis has no client-side caching.
	return rueidis.ClientOption{InitAddress: []string{v.server.Addr()}, ForceSingleClient: true, DisableCache: true}
}

// Client returns a client of the server, which is closed when the test ends.
func (v *Virtual) Client(t testing.TB) rueidis.Client { return NewClient(t, v.Option()) }

// Now returns the server's time. A store can use it as its clock:
// slidingttl.Options{Now: server.Now}.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// Advance moves the server's clock forward by d, and expires the keys whose time has come.
func (v *Virtual) Advance(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// SetTime expires no keys, and FastForward does not move the clock.
	v.now = v.now.Add(d)
	v.server.SetTime(v.now)
	v.server.FastForward(d)
}

// Fail makes every command fail with this answer, such as "LOADING". An empty answer ends that.
func (v *Virtual) Fail(answer string) { v.server.SetError(answer) }
