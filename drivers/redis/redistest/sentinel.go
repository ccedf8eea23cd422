package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// Sentinel watches a primary, and promotes a replica when the primary is gone.
type Sentinel struct {
	Name   string // of the primary and its replicas, for clients
	server *Server
}

// StartSentinel returns a sentinel over s. It treats s as gone after a third of a second without
// an answer. It knows the replicas that s has now. It stops when the test ends.
func (s *Server) StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	sentinel := &Sentinel{Name: "primary"}
	addr, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replicas, err := s.ask(t.Context(), "INFO", "replication")
	if err != nil {
		t.Fatal(err)
	}
	sentinel.server, err = runWith(t.Context(), nil, func(own, dir string) ([]string, error) {
		file := filepath.Join(dir, "sentinel.conf") // the sentinel rewrites it
		config := fmt.Sprintf("port %s\nbind %s\ndir %s\n", own, host, dir) +
			fmt.Sprintf("sentinel monitor %s %s %s 1\n", sentinel.Name, addr, port) +
			fmt.Sprintf("sentinel down-after-milliseconds %s 333\nsentinel failover-timeout %[1]s 3000\n", sentinel.Name)
		return []string{file, "--sentinel"}, os.WriteFile(file, []byte(config), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sentinel.server.Close(); err != nil {
			t.Error(err)
		}
	})
	known := strings.Count(replicas, "\nslave")
	waitFor(t, "the sentinel knows the replicas", func(ctx context.Context) error {
		return sentinel.server.says(ctx, "INFO sentinel", fmt.Sprintf("slaves=%d,sentinels=1", known))
	})
	return sentinel
}

// Option is what a client needs to find the primary.
func (s *Sentinel) Option() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.server.Addr}, Sentinel: rueidis.SentinelOption{MasterSet: s.Name}}
}

// Client returns a client of the current primary, which is closed when the test ends.
func (s *Sentinel) Client(t testing.TB) rueidis.Client { return NewClient(t, s.Option()) }
