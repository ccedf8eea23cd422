package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Start returns a server of the test's own, which stops when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	return startFor(t)
}

func startFor(t testing.TB, config ...string) *Server {
	t.Helper()
	s, err := run(t.Context(), config...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Client returns a client of the server, which is closed when the test ends.
func (s *Server) Client(t testing.TB) rueidis.Client { return NewClient(t, s.Option()) }

// NewClient returns a client, which is closed when the test ends.
func NewClient(t testing.TB, option rueidis.ClientOption) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// StartReplica returns a replica of s that has all its data. It stops when the test ends.
func (s *Server) StartReplica(t testing.TB) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command(t.Context(), "CONFIG", "SET", "repl-diskless-sync-delay", "0"); err != nil { // by default it waits for more replicas
		t.Fatal(err)
	}
	replica := startFor(t, "--replicaof", host, port)
	waitFor(t, "the replica has the primary's data", func(ctx context.Context) error {
		return replica.says(ctx, "INFO replication", "master_link_status:up")
	})
	return replica
}

// Promote makes a replica a primary. Writes that its primary had not sent it are lost.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if err := s.command(t.Context(), "REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
}

// Cluster is three primaries that share the slots.
type Cluster struct {
	Nodes []*Server
}

const (
	clusterSize = 3
	slots       = 16384
)

// StartCluster returns a cluster of the test's own, which stops when the test ends.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := new(Cluster)
	for i := range clusterSize {
		bus, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		s := startFor(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))
		first, last := slots*i/clusterSize, slots*(i+1)/clusterSize-1
		err = errors.Join(
			s.command(t.Context(), "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)),
			s.command(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)),
		)
		if err == nil && i > 0 {
			host, port, _ := net.SplitHostPort(s.Addr)
			err = c.Nodes[0].command(t.Context(), "CLUSTER", "MEET", host, port, strconv.Itoa(bus))
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes = append(c.Nodes, s)
	}
	for _, s := range c.Nodes {
		waitFor(t, "the cluster's nodes know each other", func(ctx context.Context) error {
			return errors.Join(
				s.says(ctx, "CLUSTER INFO", "cluster_state:ok"),
				s.says(ctx, "CLUSTER INFO", "cluster_slots_ok:"+strconv.Itoa(slots)),
				s.says(ctx, "CLUSTER INFO", "cluster_known_nodes:"+strconv.Itoa(clusterSize)),
			)
		})
	}
	return c
}

// Option returns what a client needs to connect to the cluster.
func (c *Cluster) Option() rueidis.ClientOption {
	var option rueidis.ClientOption
	for _, s := range c.Nodes {
		option.InitAddress = append(option.InitAddress, s.Addr)
	}
	return option
}

// Client returns a client of the cluster, which is closed when the test ends.
func (c *Cluster) Client(t testing.TB) rueidis.Client { return NewClient(t, c.Option()) }

// says wants a line in the server's answer.
func (s *Server) says(ctx context.Context, command, line string) error {
	text, err := s.ask(ctx, strings.Fields(command)...)
	if err == nil && !strings.Contains(text, line+"\r\n") {
		err = fmt.Errorf("%s of %s does not say %s", command, s.Addr, line)
	}
	return err
}

// waitFor repeats ask until it returns no error: servers do not report when they have reached
// agreement.
func waitFor(t testing.TB, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("redistest: waiting until %s: %v", what, err)
		}
	}
}

// StartDurable returns a server of the test's own that keeps its data over Restart.
func StartDurable(t testing.TB) *Server {
	t.Helper()
	return startFor(t, "--appendonly", "yes", "--enable-debug-command", "local")
}

// Restart restarts a server that StartDurable started, and returns when it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	before, err := s.ask(t.Context(), "INFO", "server")
	if err != nil {
		t.Error(err)
		return
	}
	_, run, _ := strings.Cut(before, "run_id:")
	_ = s.command(t.Context(), "DEBUG", "RESTART") // its connection is closed
	waitFor(t, "the server is another process", func(ctx context.Context) error {
		after, err := s.ask(ctx, "INFO", "server")
		if err == nil && strings.Contains(after, run[:40]) {
			err = errors.New("it has not restarted yet")
		}
		return err
	})
}
