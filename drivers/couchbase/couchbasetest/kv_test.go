package couchbasetest_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

type user struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

func get[T any](t *testing.T, col *gocb.Collection, key string) T {
	t.Helper()
	res, err := col.Get(key, nil)
	must(t, err)
	var v T
	must(t, res.Content(&v))
	return v
}

func TestStoreAndGet(t *testing.T) {
	node, col := start(t)

	_, err := col.Get("alice", nil)
	wantErr(t, err, gocb.ErrDocumentNotFound)
	_, err = col.Replace("alice", user{"Alice", 1}, nil)
	wantErr(t, err, gocb.ErrDocumentNotFound)

	inserted, err := col.Insert("alice", user{"Alice", 1}, nil)
	must(t, err)
	if got := get[user](t, col, "alice"); got != (user{"Alice", 1}) {
		t.Errorf("after insert: %+v", got)
	}
	_, err = col.Insert("alice", user{"Alice", 2}, nil)
	wantErr(t, err, gocb.ErrDocumentExists)

	upserted, err := col.Upsert("alice", user{"Alice", 3}, nil)
	must(t, err)
	if upserted.Cas() <= inserted.Cas() {
		t.Errorf("CAS went from %d to %d", inserted.Cas(), upserted.Cas())
	}
	_, err = col.Replace("alice", user{"Alice", 4}, &gocb.ReplaceOptions{Cas: inserted.Cas()})
	wantErr(t, err, gocb.ErrCasMismatch)
	replaced, err := col.Replace("alice", user{"Alice", 5}, &gocb.ReplaceOptions{Cas: upserted.Cas()})
	must(t, err)
	if got := get[user](t, col, "alice"); got != (user{"Alice", 5}) {
		t.Errorf("after replace: %+v", got)
	}

	_, err = col.Remove("alice", &gocb.RemoveOptions{Cas: upserted.Cas()})
	wantErr(t, err, gocb.ErrCasMismatch)
	_, err = col.Remove("alice", &gocb.RemoveOptions{Cas: replaced.Cas()})
	must(t, err)
	_, err = col.Remove("alice", nil)
	wantErr(t, err, gocb.ErrDocumentNotFound)

	want := couchbasetest.Counts{Get: 3, Replace: 3, Insert: 2, Upsert: 1, Remove: 3, Mutations: 4}
	if got := node.Counts(); got != want {
		t.Errorf("counts\n %+v, want\n %+v", got, want)
	}
}

func TestExists(t *testing.T) {
	_, col := start(t)
	res, err := col.Exists("k", nil)
	must(t, err)
	if res.Exists() {
		t.Error("a document that was never written exists")
	}
	mutated, err := col.Upsert("k", 1, nil)
	must(t, err)
	res, err = col.Exists("k", nil)
	must(t, err)
	if !res.Exists() || res.Cas() != mutated.Cas() {
		t.Errorf("exists %v with CAS %d, want CAS %d", res.Exists(), res.Cas(), mutated.Cas())
	}
	_, err = col.Remove("k", nil)
	must(t, err)
	res, err = col.Exists("k", nil)
	must(t, err)
	if res.Exists() {
		t.Error("a removed document exists")
	}
}

func TestMutationTokensCountUp(t *testing.T) {
	_, col := start(t)
	first, err := col.Upsert("k", 1, nil)
	must(t, err)
	second, err := col.Upsert("k", 2, nil)
	must(t, err)
	removed, err := col.Remove("k", nil)
	must(t, err)
	a, b, c := first.MutationToken(), second.MutationToken(), removed.MutationToken()
	if a == nil || b == nil || c == nil {
		t.Fatalf("tokens %v, %v, %v", a, b, c)
	}
	if a.PartitionUUID() != b.PartitionUUID() || a.PartitionUUID() == 0 || a.PartitionID() != b.PartitionID() {
		t.Errorf("tokens of different partitions: %+v, %+v", a, b)
	}
	if b.SequenceNumber() != a.SequenceNumber()+1 || c.SequenceNumber() != b.SequenceNumber()+1 {
		t.Errorf("sequence numbers %d, %d, %d", a.SequenceNumber(), b.SequenceNumber(), c.SequenceNumber())
	}
}

func TestCASFollowsTheClockAndNeverRepeats(t *testing.T) {
	node, col := start(t)
	first, err := col.Upsert("k", 1, nil)
	must(t, err)
	if got, want := uint64(first.Cas()), uint64(epoch.UnixNano())&^0xffff; got != want {
		t.Errorf("first CAS %#x, want the clock's %#x", got, want)
	}
	second, err := col.Upsert("k", 1, nil)
	must(t, err)
	if second.Cas() != first.Cas()+1 {
		t.Errorf("CAS %#x in the same instant, want one more than %#x", second.Cas(), first.Cas())
	}
	node.Advance(-time.Hour)
	third, err := col.Upsert("k", 1, nil)
	must(t, err)
	if third.Cas() <= second.Cas() {
		t.Errorf("CAS fell to %#x with the clock", third.Cas())
	}
}

func TestValueTypes(t *testing.T) {
	for _, tt := range []struct {
		name       string
		transcoder gocb.Transcoder
		value      any
		datatype   string
	}{
		{"json", gocb.NewJSONTranscoder(), user{"Alice", 1}, `["json"]`},
		{"raw json", gocb.NewRawJSONTranscoder(), []byte(`[1, 2]`), `["json"]`},
		{"raw string", gocb.NewRawStringTranscoder(), "not json", `["raw"]`},
		{"raw binary", gocb.NewRawBinaryTranscoder(), []byte{0, 1, 0xff}, `["raw"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, col := start(t)
			_, err := col.Upsert("k", tt.value, &gocb.UpsertOptions{Transcoder: tt.transcoder})
			must(t, err)
			res, err := col.Get("k", &gocb.GetOptions{Transcoder: tt.transcoder})
			must(t, err)
			switch want := tt.value.(type) {
			case user:
				var got user
				must(t, res.Content(&got))
				if got != want {
					t.Errorf("got %+v", got)
				}
			case string:
				var got string
				must(t, res.Content(&got))
				if got != want {
					t.Errorf("got %q", got)
				}
			case []byte:
				var got []byte
				must(t, res.Content(&got))
				if !bytes.Equal(got, want) {
					t.Errorf("got %q", got)
				}
			}
			if got := lookupRaw(t, col, "k", "$document.datatype", true); got != tt.datatype {
				t.Errorf("datatype %s, want %s", got, tt.datatype)
			}
		})
	}
}

func TestCompressionOnAndOff(t *testing.T) {
	text := strings.Repeat("the same words again and again ", 200)
	for _, tt := range []struct {
		name     string
		disabled bool
		datatype string
	}{
		{"on", false, `["snappy","json"]`},
		{"off", true, `["json"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := couchbasetest.Start(t)
			opts := node.ClusterOptions()
			opts.CompressionConfig.Disabled = tt.disabled
			col := connect(t, node, opts).Bucket(node.Bucket()).DefaultCollection()
			_, err := col.Upsert("k", text, nil)
			must(t, err)
			if got := lookupRaw(t, col, "k", "$document.datatype", true); got != tt.datatype {
				t.Errorf("datatype %s, want %s", got, tt.datatype)
			}
			if got := get[string](t, col, "k"); got != text {
				t.Error("the text came back changed")
			}
			// A client without compression reads what one with it wrote.
			plain := node.ClusterOptions()
			plain.CompressionConfig.Disabled = !tt.disabled
			other := connect(t, node, plain).Bucket(node.Bucket()).DefaultCollection()
			if got := get[string](t, other, "k"); got != text {
				t.Error("the text came back changed at another client")
			}
			if got, want := lookupRaw(t, other, "k", "$document.value_bytes", true), fmt.Sprint(len(text)+2); got != want {
				t.Errorf("value_bytes %s, want %s", got, want)
			}
			// Nor does a change find the former value in another encoding.
			_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.ReplaceSpec("", "short", nil)}, nil)
			must(t, err)
			if got := get[string](t, col, "k"); got != "short" {
				t.Errorf("%d bytes after a sub-document replace", len(got))
			}
			// With attributes beside it, a document is kept inflated.
			_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})}, nil)
			must(t, err)
			_, err = col.Upsert("k", text, nil)
			must(t, err)
			if got, want := lookupRaw(t, col, "k", "$document.datatype", true), `["xattr","json"]`; got != want {
				t.Errorf("datatype %s, want %s", got, want)
			}
			if got := get[string](t, col, "k"); got != text {
				t.Error("the text came back changed, beside attributes")
			}
		})
	}
}

// connect connects with the test's own options, in the order of Node.Cluster.
func connect(t *testing.T, node *couchbasetest.Node, opts gocb.ClusterOptions) *gocb.Cluster {
	t.Helper()
	cluster, err := gocb.Connect(node.ConnectionString(), opts)
	must(t, err)
	t.Cleanup(func() { _ = cluster.Close(nil) })
	must(t, cluster.WaitUntilReady(30*time.Second, management))
	must(t, cluster.Bucket(node.Bucket()).WaitUntilReady(30*time.Second, nil))
	return cluster
}

func TestTooLarge(t *testing.T) {
	node, col := start(t)
	raw := &gocb.UpsertOptions{Transcoder: gocb.NewRawBinaryTranscoder(), Timeout: 30 * time.Second}
	_, err := col.Upsert("k", make([]byte, 20<<20), raw)
	must(t, err)
	_, err = col.Upsert("k", make([]byte, 20<<20+1), raw)
	wantErr(t, err, gocb.ErrValueTooLarge)

	// Keys, in the default collection and in another.
	must(t, node.AddCollection(node.Bucket(), "s", "c", nil))
	other := col.Bucket().Scope("s").Collection("c")
	for _, tt := range []struct {
		col     *gocb.Collection
		longest int
	}{{col, 250}, {other, 246}} {
		_, err = tt.col.Upsert(strings.Repeat("k", tt.longest), 1, nil)
		must(t, err)
		_, err = tt.col.Upsert(strings.Repeat("k", tt.longest+1), 1, nil)
		wantErr(t, err, gocb.ErrInvalidArgument)
	}
}

func TestMaxTTLOfWhatKeepsItsExpiry(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", map[string]int{}, nil)
	must(t, err)
	must(t, node.SetBucketMaxTTL(node.Bucket(), time.Minute))
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("n", 1, nil)}, &gocb.MutateInOptions{PreserveExpiry: true})
	must(t, err)
	if got, want := expiryOf(t, col, "k"), epoch.Add(time.Minute).Unix(); got != want {
		t.Errorf("expiry %d, want %d", got, want)
	}
}

func TestLocks(t *testing.T) {
	node, col := start(t)
	stored, err := col.Upsert("k", "v", nil)
	must(t, err)
	locked, err := col.GetAndLock("k", 10*time.Second, nil)
	must(t, err)
	if locked.Cas() == stored.Cas() {
		t.Error("a lock has the document's CAS")
	}
	read, err := col.Get("k", nil)
	must(t, err)
	if uint64(read.Cas()) != 1<<64-1 {
		t.Errorf("a locked document reads with CAS %#x", read.Cas())
	}

	never := neverRetry{}
	_, err = col.GetAndLock("k", time.Second, &gocb.GetAndLockOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentLocked)
	_, err = col.Upsert("k", "w", &gocb.UpsertOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentLocked)
	_, err = col.Touch("k", time.Hour, &gocb.TouchOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentLocked)
	_, err = col.GetAndTouch("k", time.Hour, &gocb.GetAndTouchOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentLocked)
	_, err = col.Remove("k", &gocb.RemoveOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentLocked)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})},
		&gocb.MutateInOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentLocked)

	must(t, col.Unlock("k", locked.Cas(), nil))
	err = col.Unlock("k", locked.Cas(), &gocb.UnlockOptions{RetryStrategy: never})
	wantErr(t, err, gocb.ErrDocumentNotLocked)
	if res, err := col.Get("k", nil); err != nil || res.Cas() != stored.Cas() {
		t.Errorf("after unlock: CAS %d, %v, want the old %d", res.Cas(), err, stored.Cas())
	}

	// A write with the lock's CAS succeeds and ends the lock.
	locked, err = col.GetAndLock("k", 10*time.Second, nil)
	must(t, err)
	_, err = col.Replace("k", "mine", &gocb.ReplaceOptions{Cas: locked.Cas()})
	must(t, err)
	_, err = col.Upsert("k", "theirs", &gocb.UpsertOptions{RetryStrategy: never})
	must(t, err)

	locked, err = col.GetAndLock("k", 10*time.Second, nil)
	must(t, err)
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})},
		&gocb.MutateInOptions{Cas: locked.Cas()})
	must(t, err)
	_, err = col.Upsert("k", "theirs", &gocb.UpsertOptions{RetryStrategy: never})
	must(t, err)

	// A lock ends by itself.
	_, err = col.GetAndLock("k", 10*time.Second, nil)
	must(t, err)
	node.Advance(11 * time.Second)
	_, err = col.Upsert("k", "later", &gocb.UpsertOptions{RetryStrategy: never})
	must(t, err)
}

func TestDurabilityIsAccepted(t *testing.T) {
	_, col := start(t)
	for _, level := range []gocb.DurabilityLevel{
		gocb.DurabilityLevelMajority, gocb.DurabilityLevelMajorityAndPersistOnMaster, gocb.DurabilityLevelPersistToMajority,
	} {
		_, err := col.Upsert("k", 1, &gocb.UpsertOptions{DurabilityLevel: level})
		must(t, err)
		_, err = col.Replace("k", 2, &gocb.ReplaceOptions{DurabilityLevel: level})
		must(t, err)
		_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})},
			&gocb.MutateInOptions{DurabilityLevel: level})
		must(t, err)
		_, err = col.Remove("k", &gocb.RemoveOptions{DurabilityLevel: level})
		must(t, err)
	}
}

// TestOneKeyManyWriters: 64 goroutines count on one document, each with its own
// compare-and-swap loop. No increment may be lost.
func TestOneKeyManyWriters(t *testing.T) {
	_, col := start(t)
	const writers, rounds = 64, 5
	_, err := col.Upsert("n", 0, nil)
	must(t, err)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				for {
					res, err := col.Get("n", &gocb.GetOptions{Timeout: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					var n int
					if err := res.Content(&n); err != nil {
						t.Error(err)
						return
					}
					_, err = col.Replace("n", n+1, &gocb.ReplaceOptions{Cas: res.Cas(), Timeout: time.Minute})
					if err == nil {
						break
					}
					if !isCASMismatch(err) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if got := get[int](t, col, "n"); got != writers*rounds {
		t.Errorf("counted %d, want %d", got, writers*rounds)
	}
}
