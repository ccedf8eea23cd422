package cosmostest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Options says what an account is like. The zero value, and a nil pointer, mean the
// defaults.
type Options struct {
	// Consistency is the account's default consistency level. Empty: Session, as a
	// new account has.
	Consistency azcosmos.ConsistencyLevel

	// MultiRegionWrites makes the account report that it takes writes in several regions. It
	// has no other effect.
	MultiRegionWrites bool

	// SecondRegion gives the account a second region, ReadRegion, for reads only. Clients
	// that prefer it read there.
	SecondRegion bool

	// Partitions is how many physical partitions a container begins with, at least: one that is
	// created with a throughput has one for each 10,000 RU/s. Zero: 1. For more, its partition key
	// has to be of version 2.
	Partitions int

	// HTTP2 makes Client and Container use HTTP/2, here without TLS. azcosmos does so by
	// default if the account does. The account always serves HTTP/1.1 and HTTP/2.
	HTTP2 bool
}

// Account is an account. All methods are safe for concurrent use.
type Account struct {
	opts     Options
	key      []byte
	listener net.Listener
	second   net.Listener // of the second region; nil: there is none
	server   *http.Server
	served   sync.WaitGroup // until the server has ended
	clock    clock
	counts   tally
	faults   faults
	lagging  atomic.Bool

	removalLag atomic.Int64 // nanoseconds

	mu         sync.Mutex // guards all below, and what is in it
	databases  map[string]*database
	regionLags bool
	lastID     uint64
}

// New starts an account without a test.
func New(opts *Options) (*Account, error) {
	a := &Account{key: make([]byte, 64), databases: make(map[string]*database)}
	if opts != nil {
		a.opts = *opts
	}
	switch a.opts.Consistency {
	case "":
		a.opts.Consistency = azcosmos.ConsistencyLevelSession
	case azcosmos.ConsistencyLevelStrong, azcosmos.ConsistencyLevelBoundedStaleness, azcosmos.ConsistencyLevelSession,
		azcosmos.ConsistencyLevelConsistentPrefix, azcosmos.ConsistencyLevelEventual:
	default:
		return nil, fmt.Errorf("cosmostest: Options.Consistency is %q: must be one of azcosmos's levels", a.opts.Consistency)
	}
	if a.opts.Partitions < 0 || a.opts.Partitions > hashes {
		return nil, fmt.Errorf("cosmostest: Options.Partitions is %d: must be at least 0 and at most %d", a.opts.Partitions, hashes)
	}
	_, _ = rand.Read(a.key)
	a.server = &http.Server{Handler: a, ConnContext: withConn, Protocols: protocols(true, true)}
	var err error
	if a.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cosmostest: %w", err)
	}
	regions := []net.Listener{a.listener}
	if a.opts.SecondRegion {
		if a.second, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, errors.Join(fmt.Errorf("cosmostest: %w", err), a.listener.Close())
		}
		regions = append(regions, a.second)
	}
	for _, l := range regions {
		a.served.Go(func() { _ = a.server.Serve(listener{l}) }) // ends with Close
	}
	return a, nil
}

func protocols(one, two bool) *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(one)
	p.SetUnencryptedHTTP2(two)
	return &p
}

// Close ends the account, its connections and requests under way included.
func (a *Account) Close() error {
	a.faults.release()
	err := a.server.Close()
	a.served.Wait()
	return err
}

// Start returns an account of the test's own, which stops when the test ends.
func Start(t testing.TB) *Account {
	t.Helper()
	return StartWith(t, nil)
}

// StartWith is Start with options.
func StartWith(t testing.TB, opts *Options) *Account {
	t.Helper()
	a, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Endpoint is the account's URL.
func (a *Account) Endpoint() string { return endpoint(a.listener) }

func endpoint(l net.Listener) string { return "http://" + l.Addr().String() + "/" }

// Key is the account's primary key.
func (a *Account) Key() string { return base64.StdEncoding.EncodeToString(a.key) }

// Client returns a client of the account with its own connections. They are closed when the
// test ends. Each of opts adjusts it.
func (a *Account) Client(t testing.TB, opts ...func(*azcosmos.ClientOptions)) *azcosmos.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100, Protocols: protocols(!a.opts.HTTP2, a.opts.HTTP2)}
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: 2 * time.Second} // azcosmos: 2 s, 1 s
	o := &azcosmos.ClientOptions{}
	o.Transport = &http.Client{Transport: transport}
	for _, adjust := range opts {
		adjust(o)
	}
	credential, err := azcosmos.NewKeyCredential(a.Key())
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(a.Endpoint(), credential, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		transport.CloseIdleConnections()
	})
	return client
}

// databaseID is the database of the containers that Container makes.
const databaseID = "test"

// Container creates a container in the database "test" and returns a client of it. Without
// an ID it gets a unique one; without a partition key its path is "/id".
func (a *Account) Container(t testing.TB, properties azcosmos.ContainerProperties, opts ...func(*azcosmos.ClientOptions)) *azcosmos.ContainerClient {
	t.Helper()
	if properties.ID == "" {
		a.mu.Lock()
		a.lastID++
		properties.ID = fmt.Sprint("container", a.lastID)
		a.mu.Unlock()
	}
	if len(properties.PartitionKeyDefinition.Paths) == 0 {
		properties.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}, Version: 2}
	}
	client := a.Client(t, opts...)
	if err := createContainer(context.Background(), client, properties); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewContainer(databaseID, properties.ID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func createContainer(ctx context.Context, client *azcosmos.Client, properties azcosmos.ContainerProperties) error {
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: databaseID}, nil)
	if err != nil && statusOf(err) != http.StatusConflict {
		return err
	}
	db, err := client.NewDatabase(databaseID)
	if err != nil {
		return err
	}
	_, err = db.CreateContainer(ctx, properties, nil)
	return err
}

// statusOf returns the status of the answer in err, zero if there is none.
func statusOf(err error) int {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

// SetLag makes reads show an item as it was before its last write, like a replica that is
// behind. Under Session consistency this affects reads without a session token, or with one
// older than that write. Under lower levels it affects all reads, under higher levels none.
func (a *Account) SetLag(on bool) { a.lagging.Store(on) }

// SetRemovalLag makes the account remove items only d after their time to live has passed.
// Reads, queries and writes do not find them at once, but until then they prevent a create.
func (a *Account) SetRemovalLag(d time.Duration) { a.removalLag.Store(int64(d)) }
