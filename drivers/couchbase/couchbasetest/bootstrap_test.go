package couchbasetest_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

func TestMechanisms(t *testing.T) {
	for _, mech := range []gocb.SaslMechanism{
		gocb.PlainSaslMechanism, gocb.ScramSha1SaslMechanism, gocb.ScramSha256SaslMechanism, gocb.ScramSha512SaslMechanism,
	} {
		t.Run(string(mech), func(t *testing.T) {
			node := couchbasetest.Start(t)
			opts := node.ClusterOptions()
			opts.SecurityConfig.AllowedSaslMechanisms = []gocb.SaslMechanism{mech}
			col := connect(t, node, opts).Bucket(node.Bucket()).DefaultCollection()
			_, err := col.Upsert("k", 1, nil)
			must(t, err)
		})
	}
}

func TestWrongCredentials(t *testing.T) {
	for _, mech := range []gocb.SaslMechanism{gocb.PlainSaslMechanism, gocb.ScramSha512SaslMechanism} {
		for _, auth := range []gocb.PasswordAuthenticator{
			{Username: couchbasetest.DefaultUsername, Password: "wrong"},
			{Username: "nobody", Password: couchbasetest.DefaultPassword},
		} {
			node := couchbasetest.Start(t)
			opts := node.ClusterOptions()
			opts.SecurityConfig.AllowedSaslMechanisms = []gocb.SaslMechanism{mech}
			opts.Authenticator = auth
			wantErr(t, loginErr(t, node, opts), gocb.ErrAuthenticationFailure)
		}
	}
}

// untilFailure retries until a client is ready, or until it returns why it cannot be.
type untilFailure struct{}

func (untilFailure) RetryAfter(_ gocb.RetryRequest, reason gocb.RetryReason) gocb.RetryAction {
	switch reason.Description() {
	case "CONNECTION_ERROR", "BUCKET_NOT_FOUND":
		return &gocb.NoRetryRetryAction{}
	}
	return &gocb.WithDurationRetryAction{WithDuration: time.Millisecond}
}

// loginErr returns why a cluster does not become ready.
func loginErr(t *testing.T, node *couchbasetest.Node, opts gocb.ClusterOptions) error {
	t.Helper()
	cluster, err := gocb.Connect(node.ConnectionString(), opts)
	must(t, err)
	defer func() { must(t, cluster.Close(nil)) }()
	return cluster.WaitUntilReady(time.Minute, &gocb.WaitUntilReadyOptions{
		RetryStrategy: untilFailure{}, ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeManagement},
	})
}

func TestCredentialsOfChoice(t *testing.T) {
	node, err := couchbasetest.New(&couchbasetest.Options{Username: "me,=", Password: "pässword", Bucket: "sessions"})
	must(t, err)
	t.Cleanup(func() { must(t, node.Close()) })
	col := node.Cluster(t).Bucket("sessions").DefaultCollection()
	_, err = col.Upsert("k", 1, nil)
	must(t, err)
}

func TestMissingBucket(t *testing.T) {
	node := couchbasetest.Start(t)
	err := node.Cluster(t).Bucket("missing").WaitUntilReady(time.Minute, &gocb.WaitUntilReadyOptions{RetryStrategy: untilFailure{}})
	wantErr(t, err, gocb.ErrBucketNotFound)
	must(t, node.AddBucket("missing", nil))
	must(t, node.Cluster(t).Bucket("missing").WaitUntilReady(time.Minute, nil))
}

func TestMissingScopeAndCollection(t *testing.T) {
	node := couchbasetest.Start(t)
	must(t, node.AddCollection(node.Bucket(), "s", "c", nil))
	bucket := node.Cluster(t).Bucket(node.Bucket())
	for _, col := range []*gocb.Collection{
		bucket.Scope("missing").Collection("c"),
		bucket.Scope("s").Collection("missing"),
	} {
		// gocb always waits for a collection that is unknown, until its timeout.
		_, err := col.Get("k", &gocb.GetOptions{Timeout: 50 * time.Millisecond})
		var timeout *gocb.TimeoutError
		if !errors.As(err, &timeout) || len(timeout.RetryReasons) == 0 {
			t.Fatalf("get: %v", err)
		}
		for _, reason := range timeout.RetryReasons {
			if reason != gocb.KVCollectionOutdatedRetryReason {
				t.Errorf("retried for %v", reason.Description())
			}
		}
	}

	// Once created, it is found.
	must(t, node.AddCollection(node.Bucket(), "s", "missing", nil))
	_, err := bucket.Scope("s").Collection("missing").Upsert("k", 1, nil)
	must(t, err)
}

func TestBucketsAndCollectionsAreApart(t *testing.T) {
	node := couchbasetest.Start(t)
	must(t, node.AddBucket("other", nil))
	must(t, node.AddScope(node.Bucket(), "s"))
	must(t, node.AddCollection(node.Bucket(), "s", "c", nil))
	must(t, node.AddCollection(node.Bucket(), "s", "d", nil))
	cluster := node.Cluster(t)
	cols := map[string]*gocb.Collection{
		"default":   cluster.Bucket(node.Bucket()).DefaultCollection(),
		"s.c":       cluster.Bucket(node.Bucket()).Scope("s").Collection("c"),
		"s.d":       cluster.Bucket(node.Bucket()).Scope("s").Collection("d"),
		"other's":   cluster.Bucket("other").DefaultCollection(),
		"by name":   cluster.Bucket("other").Scope("_default").Collection("_default"),
		"unchanged": nil,
	}
	delete(cols, "unchanged")
	for name, col := range cols {
		_, err := col.Upsert("k", name, nil)
		must(t, err)
	}
	for name, col := range cols {
		want := name
		if name == "other's" || name == "by name" { // one and the same
			want = get[string](t, cols["by name"], "k")
		}
		if got := get[string](t, col, "k"); got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}
}

func TestSettingsByManagement(t *testing.T) {
	node := couchbasetest.Start(t)
	must(t, node.AddBucket("b", &couchbasetest.BucketOptions{MaxTTL: 2 * time.Hour}))
	must(t, node.AddCollection("b", "s", "short", &couchbasetest.CollectionOptions{MaxTTL: time.Hour}))
	must(t, node.AddCollection("b", "s", "free", &couchbasetest.CollectionOptions{NoExpiry: true}))
	must(t, node.AddCollection("b", "s", "plain", nil))
	cluster := node.Cluster(t)

	b, err := cluster.Buckets().GetBucket("b", nil)
	must(t, err)
	if b.Name != "b" || b.MaxExpiry != 2*time.Hour || b.BucketType != gocb.CouchbaseBucketType || b.NumReplicas != 0 {
		t.Errorf("settings %+v", b)
	}
	all, err := cluster.Buckets().GetAllBuckets(nil)
	must(t, err)
	if len(all) != 2 || all["b"].MaxExpiry != 2*time.Hour || all["default"].MaxExpiry != 0 {
		t.Errorf("all settings %+v", all)
	}
	_, err = cluster.Buckets().GetBucket("missing", nil)
	wantErr(t, err, gocb.ErrBucketNotFound)

	scopes, err := cluster.Bucket("b").CollectionsV2().GetAllScopes(nil)
	must(t, err)
	got := map[string]time.Duration{}
	for _, s := range scopes {
		for _, c := range s.Collections {
			got[s.Name+"."+c.Name] = c.MaxExpiry
		}
	}
	want := map[string]time.Duration{"_default._default": 0, "s.short": time.Hour, "s.free": -time.Second, "s.plain": 0}
	if len(got) != len(want) {
		t.Errorf("collections %v, want %v", got, want)
	}
	for name, ttl := range want {
		if got[name] != ttl {
			t.Errorf("%s: MaxExpiry %v, want %v", name, got[name], ttl)
		}
	}
	// The node does not pretend to have done what it cannot do.
	if err := cluster.Bucket("b").CollectionsV2().CreateScope("made", nil); err == nil {
		t.Error("a scope was made by management")
	}
}

// Other clients read more of the answers than gocb does.
func TestAnswersForOtherClients(t *testing.T) {
	node := couchbasetest.Start(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, node.ManagementURL()+"/pools/default/buckets/"+node.Bucket(), nil)
	must(t, err)
	req.SetBasicAuth(node.Username(), node.Password())
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { must(t, res.Body.Close()) }()
	var settings struct {
		Capabilities []string `json:"bucketCapabilities"`
		Nodes        []struct {
			Hostname string
			Status   string
			Version  string
			Services []string
			Ports    map[string]int
		}
	}
	must(t, json.NewDecoder(res.Body).Decode(&settings))
	if len(settings.Nodes) != 1 || len(settings.Capabilities) == 0 {
		t.Fatalf("settings %+v", settings)
	}
	n := settings.Nodes[0]
	if "http://"+n.Hostname != node.ManagementURL() || n.Status != "healthy" || n.Version == "" || !slices.Equal(n.Services, []string{"kv"}) ||
		"couchbase://127.0.0.1:"+strconv.Itoa(n.Ports["direct"]) != node.ConnectionString() {
		t.Errorf("the node is %+v", n)
	}

	// A client that prefers no server group prefers none of this cluster's.
	agent, err := node.Cluster(t).Bucket(node.Bucket()).Internal().IORouter()
	must(t, err)
	config, err := agent.ConfigSnapshot()
	must(t, err)
	groups, err := config.KeyToServersByServerGroup([]byte("k"))
	must(t, err)
	if len(groups) != 1 || len(groups["Group 1"]) != 1 {
		t.Errorf("servers by group %v; want one, in Group 1", groups)
	}
}

func TestManagementNeedsCredentials(t *testing.T) {
	node := couchbasetest.Start(t)
	for _, tt := range []struct {
		user, password string
		want           int
	}{
		{node.Username(), node.Password(), http.StatusOK},
		{node.Username(), "wrong", http.StatusUnauthorized},
		{"nobody", node.Password(), http.StatusUnauthorized},
		{"", "", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, node.ManagementURL()+"/pools/default/buckets", nil)
		must(t, err)
		if tt.user != "" {
			req.SetBasicAuth(tt.user, tt.password)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != tt.want {
			t.Errorf("%q: status %d, want %d", tt.user, res.StatusCode, tt.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestReadyAndPing(t *testing.T) {
	node := couchbasetest.Start(t)
	cluster, err := gocb.Connect(node.ConnectionString()+"?config_poll_interval=50ms", node.ClusterOptions())
	must(t, err)
	t.Cleanup(func() { _ = cluster.Close(nil) })
	must(t, cluster.WaitUntilReady(time.Minute, nil))
	must(t, cluster.WaitUntilReady(time.Minute, &gocb.WaitUntilReadyOptions{
		ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeManagement},
	}))
	bucket := cluster.Bucket(node.Bucket())
	must(t, bucket.WaitUntilReady(time.Minute, nil))
	awaitLastConfig(t, bucket)
	res, err := bucket.Ping(nil)
	must(t, err)
	for service, reports := range res.Services {
		for _, r := range reports {
			if r.State != gocb.PingStateOk {
				t.Errorf("service %v: %v %s", service, r.State, r.Error)
			}
		}
	}
	if len(res.Services[gocb.ServiceTypeKeyValue]) != 1 {
		t.Errorf("services %+v", res.Services)
	}
}

// awaitLastConfig waits until gocb uses the last of the node's revisions. A ping that is
// queued while the config changes is never sent: it has an address, but no key by which it
// could be routed again (gocbcore v10.8.1, kvMux.DispatchDirectToAddress).
func awaitLastConfig(t *testing.T, bucket *gocb.Bucket) {
	t.Helper()
	agent, err := bucket.Internal().IORouter()
	must(t, err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		config, err := agent.ConfigSnapshot()
		must(t, err)
		if config.RevID() == couchbasetest.LastConfigRev {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("config revision %d, want %d", config.RevID(), couchbasetest.LastConfigRev)
		}
	}
}

func TestInvalidSettings(t *testing.T) {
	node := couchbasetest.Start(t)
	ttl := func(d time.Duration) *couchbasetest.CollectionOptions {
		return &couchbasetest.CollectionOptions{MaxTTL: d}
	}
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"bucket twice", node.AddBucket(node.Bucket(), nil), couchbasetest.ErrExists},
		{"bucket without a name", node.AddBucket("", nil), couchbasetest.ErrInvalid},
		{"bucket with a space", node.AddBucket("a b", nil), couchbasetest.ErrInvalid},
		{"bucket with a negative maxTTL", node.AddBucket("b", &couchbasetest.BucketOptions{MaxTTL: -time.Second}), couchbasetest.ErrInvalid},
		{"bucket with half a second", node.AddBucket("b", &couchbasetest.BucketOptions{MaxTTL: time.Second / 2}), couchbasetest.ErrInvalid},
		{"bucket with too much", node.AddBucket("b", &couchbasetest.BucketOptions{MaxTTL: 1 << 31 * time.Second}), couchbasetest.ErrInvalid},
		{"scope of no bucket", node.AddScope("missing", "s"), couchbasetest.ErrUnknown},
		{"scope twice", node.AddScope(node.Bucket(), "_default"), couchbasetest.ErrInvalid},
		{"collection with a dot", node.AddCollection(node.Bucket(), "s", "a.b", nil), couchbasetest.ErrInvalid},
		{"collection of two minds", node.AddCollection(node.Bucket(), "s", "c", &couchbasetest.CollectionOptions{MaxTTL: time.Second, NoExpiry: true}), couchbasetest.ErrInvalid},
		{"collection with half a second", node.AddCollection(node.Bucket(), "s", "c", ttl(time.Second/2)), couchbasetest.ErrInvalid},
		{"settings of no bucket", node.SetBucketMaxTTL("missing", 0), couchbasetest.ErrUnknown},
		{"settings of no scope", node.SetCollectionOptions(node.Bucket(), "s", "c", nil), couchbasetest.ErrUnknown},
		{"settings of no collection", node.SetCollectionOptions(node.Bucket(), "_default", "c", nil), couchbasetest.ErrUnknown},
		{"settings of the default collection", node.SetCollectionOptions(node.Bucket(), "_default", "_default", ttl(time.Hour)), nil},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	must(t, node.AddCollection(node.Bucket(), "s", "c", nil))
	wantErr(t, node.AddCollection(node.Bucket(), "s", "c", nil), couchbasetest.ErrExists)
	wantErr(t, node.AddScope(node.Bucket(), "s"), couchbasetest.ErrExists)
}
