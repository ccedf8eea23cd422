package couchbasetest

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/xdg-go/scram"
)

// The defaults of [Options].
const (
	DefaultUsername = "Administrator"
	DefaultPassword = "password"
	DefaultBucket   = "default"
)

// Options configures a [Node]. The zero value, and nil, mean every default.
type Options struct {
	// Username and Password are the only credentials the node accepts, for the
	// protocol and for the management pages. Empty means [DefaultUsername] and
	// [DefaultPassword].
	Username, Password string

	// Bucket is the name of the bucket the node starts with. Empty means
	// [DefaultBucket]. [Node.AddBucket] adds more.
	Bucket string

	// NodeDown gives the cluster a second node, which holds no record and cannot be
	// reached. [Node.Cluster] needs all nodes.
	NodeDown bool

	// Logger receives what a client did wrong, such as a malformed packet or a
	// failed login. It never receives a document's key or value. Nil means that
	// nothing is logged.
	Logger *slog.Logger
}

// Node is a Couchbase node in this process. Make one with [Start] or [New].
type Node struct {
	username, password string
	bucketName         string
	nodeDown           bool
	log                *slog.Logger

	kv   net.Listener
	mgmt net.Listener
	http *http.Server

	clock   clock
	logins  map[string]*scram.Server // by mechanism
	counts  counters
	faults  faults
	latency atomic.Int64 // nanoseconds

	nextConnID atomic.Uint64
	done       chan struct{} // closed by Close
	running    sync.WaitGroup

	// mu guards buckets, conns and closed.
	mu      sync.Mutex
	buckets map[string]*bucket
	conns   map[*conn]struct{}
	closed  bool
}

// Start runs a node with the default options for as long as the test runs. Its
// log goes to the test's output. A node that cannot start fails the test.
//
// For other options, use [New] and hand Close to t.Cleanup.
func Start(t testing.TB) *Node {
	t.Helper()
	n, err := New(&Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// New runs a node until it is closed. Like [net/http/httptest.NewServer] it
// listens on loopback ports that the system chooses, and fails when there are
// none.
func New(opts *Options) (*Node, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	n := &Node{
		username:   orDefault(o.Username, DefaultUsername),
		password:   orDefault(o.Password, DefaultPassword),
		bucketName: orDefault(o.Bucket, DefaultBucket),
		nodeDown:   o.NodeDown,
		log:        o.Logger,
		done:       make(chan struct{}),
		buckets:    map[string]*bucket{},
		conns:      map[*conn]struct{}{},
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if n.logins, err = scramServers(n.password); err != nil {
		return nil, fmt.Errorf("couchbasetest: %w", err)
	}
	if n.kv, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("couchbasetest: listen for the data service: %w", err)
	}
	if n.mgmt, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		_ = n.kv.Close()
		return nil, fmt.Errorf("couchbasetest: listen for the management service: %w", err)
	}
	if err := n.AddBucket(n.bucketName, nil); err != nil {
		_ = n.kv.Close()
		_ = n.mgmt.Close()
		return nil, err
	}
	n.http = n.newMgmtServer()
	n.running.Go(n.accept)
	n.running.Go(func() {
		if err := n.http.Serve(n.mgmt); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("management service stopped", "err", err)
		}
	})
	return n, nil
}

func orDefault(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// Close stops the node and waits for all its goroutines. Connected clients see
// their connections end. A second Close does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		n.running.Wait()
		return nil
	}
	n.closed = true
	close(n.done)
	for c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()

	err := errors.Join(ignoreClosed(n.kv.Close()), n.http.Close())
	n.running.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ConnectionString returns the argument for gocb.Connect, such as
// "couchbase://127.0.0.1:41234".
func (n *Node) ConnectionString() string { return "couchbase://" + n.kv.Addr().String() }

// Username returns the name of the user that the node accepts.
func (n *Node) Username() string { return n.username }

// Password returns that user's password.
func (n *Node) Password() string { return n.password }

// Bucket returns the name of the bucket that the node started with.
func (n *Node) Bucket() string { return n.bucketName }

// ManagementURL returns the URL of the node's settings, such as "http://127.0.0.1:41235".
// gocb finds it by itself.
func (n *Node) ManagementURL() string { return "http://" + n.mgmt.Addr().String() }

// ClusterOptions are gocb's default options for gocb.Connect, with the node's credentials.
func (n *Node) ClusterOptions() gocb.ClusterOptions {
	return gocb.ClusterOptions{
		Authenticator: gocb.PasswordAuthenticator{Username: n.username, Password: n.password},
	}
}

// Cluster connects gocb to the node and waits until the default bucket is ready. It uses
// [Node.ClusterOptions], and closes the connection when the test ends. A failure ends the
// test.
func (n *Node) Cluster(t testing.TB) *gocb.Cluster {
	t.Helper()
	cluster, err := gocb.Connect(n.ConnectionString(), n.ClusterOptions())
	if err != nil {
		t.Fatalf("couchbasetest: connect: %v", err)
	}
	t.Cleanup(func() { _ = cluster.Close(nil) })
	// First the cluster, then the bucket: opening a bucket makes gocb close the
	// connection that it has begun to open, and one that is closed during its login
	// can leave a goroutine behind (gocbcore v10.8.1, buildAuthHandler: two results, a
	// channel with room for one).
	management := &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeManagement}}
	if err := cluster.WaitUntilReady(readyTimeout, management); err != nil {
		t.Fatalf("couchbasetest: the cluster is not ready: %v", err)
	}
	if err := cluster.Bucket(n.bucketName).WaitUntilReady(readyTimeout, nil); err != nil {
		t.Fatalf("couchbasetest: bucket %q is not ready: %v", n.bucketName, err)
	}
	return cluster
}

// readyTimeout bounds how long Cluster waits. It is long because a machine that runs many
// test binaries at once is slow. Only a broken node reaches it.
const readyTimeout = 30 * time.Second

// DropConnections closes every client connection. gocb connects again by itself.
func (n *Node) DropConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.EndWrites()
	}
}

// Connections returns the number of open client connections.
func (n *Node) Connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

func (n *Node) accept() {
	for {
		nc, err := n.kv.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				n.log.Error("data service stopped", "err", err)
			}
			return
		}
		c := newConn(n, nc)
		if !n.register(c) {
			c.Close()
			return
		}
		n.running.Go(func() {
			defer n.unregister(c)
			c.serve()
		})
	}
}

func (n *Node) register(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *Node) unregister(c *conn) {
	c.Close()
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

func (n *Node) bucket(name string) *bucket {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buckets[name]
}
