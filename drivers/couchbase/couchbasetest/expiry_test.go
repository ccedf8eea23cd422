package couchbasetest_test

import (
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

const day = 24 * time.Hour

// TestExpirationPriorities has a case for each row of the table "Expiration Setting
// Priorities" in the Couchbase Server documentation (Learn, Data, Expiration). Cases that
// the table leaves open are as in kv_engine.
func TestExpirationPriorities(t *testing.T) {
	const none = 0
	type options = couchbasetest.CollectionOptions
	for _, tt := range []struct {
		row        string
		document   time.Duration
		collection options
		bucket     time.Duration
		want       time.Duration // none: does not expire
	}{
		{"nothing is set: does not expire", none, options{}, none, none},
		{"only the bucket's is set: it is the document's", none, options{}, 50 * time.Second, 50 * time.Second},
		{"the collection's is set: it is the document's", none, options{MaxTTL: 40 * time.Second}, none, 40 * time.Second},
		{"the collection's hides a higher one of the bucket", none, options{MaxTTL: 40 * time.Second}, 50 * time.Second, 40 * time.Second},
		{"the collection's hides a lower one of the bucket", none, options{MaxTTL: 40 * time.Second}, 30 * time.Second, 40 * time.Second},
		{"-1 hides the bucket's: does not expire", none, options{NoExpiry: true}, 50 * time.Second, none},
		{"the document's alone", 20 * time.Second, options{}, none, 20 * time.Second},
		{"the document's, below the collection's", 20 * time.Second, options{MaxTTL: 40 * time.Second}, none, 20 * time.Second},
		{"the document's, below the bucket's", 20 * time.Second, options{}, 50 * time.Second, 20 * time.Second},
		{"the document's, below both", 20 * time.Second, options{MaxTTL: 40 * time.Second}, 50 * time.Second, 20 * time.Second},
		{"the document's, capped by the collection's", 60 * time.Second, options{MaxTTL: 40 * time.Second}, none, 40 * time.Second},
		{"the document's, capped by the collection's and not the bucket's", 60 * time.Second, options{MaxTTL: 40 * time.Second}, 30 * time.Second, 40 * time.Second},
		{"the document's, capped by the bucket's", 60 * time.Second, options{}, 50 * time.Second, 50 * time.Second},
		// Not in the table. (kv_engine: a collection's limit of "none" is a limit.)
		{"-1 hides the bucket's cap as well", 60 * time.Second, options{NoExpiry: true}, 50 * time.Second, 60 * time.Second},
		{"the document's, equal to the cap", 40 * time.Second, options{MaxTTL: 40 * time.Second}, none, 40 * time.Second},
	} {
		t.Run(tt.row, func(t *testing.T) {
			node := couchbasetest.Start(t)
			node.SetTime(epoch)
			must(t, node.SetBucketMaxTTL(node.Bucket(), tt.bucket))
			must(t, node.AddCollection(node.Bucket(), "s", "c", &tt.collection))
			col := node.Cluster(t).Bucket(node.Bucket()).Scope("s").Collection("c")

			want := int64(0)
			if tt.want != none {
				want = epoch.Add(tt.want).Unix()
			}
			check := func(how string, err error) {
				t.Helper()
				must(t, err)
				if got := expiryOf(t, col, "k"); got != want {
					t.Errorf("%s: expires %v after now, want %v", how, time.Duration(got-epoch.Unix())*time.Second, tt.want)
				}
			}
			// The rules are the same for all operations that write an expiry.
			_, err := col.Insert("k", 1, &gocb.InsertOptions{Expiry: tt.document})
			check("insert", err)
			_, err = col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: tt.document})
			check("upsert", err)
			_, err = col.Replace("k", 1, &gocb.ReplaceOptions{Expiry: tt.document})
			check("replace", err)
			_, err = col.Touch("k", tt.document, nil)
			check("touch", err)
			_, err = col.GetAndTouch("k", tt.document, nil)
			check("get-and-touch", err)
			_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})},
				&gocb.MutateInOptions{Expiry: tt.document})
			check("sub-document mutation", err)
		})
	}
}

// TestMaxTTLOfLongLives: gocb sends long expiries as times of the real clock, so the
// node's clock is close to it.
func TestMaxTTLOfLongLives(t *testing.T) {
	node := couchbasetest.Start(t)
	now := time.Now()
	node.SetTime(now)
	col := node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()
	must(t, node.SetBucketMaxTTL(node.Bucket(), 40*day))
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: 60 * day})
	must(t, err)
	if got, want := expiryOf(t, col, "k"), now.Add(40*day).Unix(); got != want {
		t.Errorf("expiry %d, want the cap %d", got, want)
	}
	must(t, node.SetBucketMaxTTL(node.Bucket(), 90*day))
	_, err = col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: 60 * day})
	must(t, err)
	if got, low, high := expiryOf(t, col, "k"), now.Add(60*day).Unix(), time.Now().Add(60*day).Unix(); got < low || got > high {
		t.Errorf("expiry %d, want %d to %d", got, low, high)
	}
}

func TestMaxTTLTakesEffectWithTheNextWrite(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: time.Hour})
	must(t, err)
	must(t, node.SetBucketMaxTTL(node.Bucket(), time.Minute))
	if got, want := expiryOf(t, col, "k"), epoch.Add(time.Hour).Unix(); got != want {
		t.Errorf("expiry %d changed with the bucket's maxTTL, want %d", got, want)
	}
	_, err = col.Touch("k", time.Hour, nil)
	must(t, err)
	if got, want := expiryOf(t, col, "k"), epoch.Add(time.Minute).Unix(); got != want {
		t.Errorf("expiry %d after a touch, want %d", got, want)
	}
}

func TestDocumentExpires(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: 10 * time.Second})
	must(t, err)
	if got, want := expiryOf(t, col, "k"), epoch.Unix()+10; got != want {
		t.Fatalf("expiry %d, want %d: relative to the second now", got, want)
	}

	// It lives through the second of its expiry, as on the server.
	node.SetTime(time.Unix(epoch.Unix()+10, 999_999_999))
	_, err = col.Get("k", nil)
	must(t, err)
	before := node.Counts()
	node.SetTime(time.Unix(epoch.Unix()+11, 0))

	for _, tt := range []struct {
		op string
		do func() error
	}{
		{"get", func() error { _, err := col.Get("k", nil); return err }},
		{"get-and-touch", func() error { _, err := col.GetAndTouch("k", time.Hour, nil); return err }},
		{"touch", func() error { _, err := col.Touch("k", time.Hour, nil); return err }},
		{"get-and-lock", func() error { _, err := col.GetAndLock("k", time.Second, nil); return err }},
		{"replace", func() error { _, err := col.Replace("k", 2, nil); return err }},
		{"remove", func() error { _, err := col.Remove("k", nil); return err }},
		{"lookup", func() error { _, err := lookup(col, "k", "$document", true); return err }},
		{"mutation", func() error {
			_, err := col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})}, nil)
			return err
		}},
	} {
		if err := tt.do(); !isNotFound(err) {
			t.Errorf("%s of an expired document: %v", tt.op, err)
		}
	}
	if res, err := col.Exists("k", nil); err != nil || res.Exists() {
		t.Errorf("exists after its expiry: %v, %v", res, err)
	}
	if got := node.Counts().Since(before).Mutations; got != 0 {
		t.Errorf("%d mutations of an expired document", got)
	}
	if _, err := col.Insert("k", 2, nil); err != nil {
		t.Errorf("insert after expiry: %v", err)
	}
	if got := expiryOf(t, col, "k"); got != 0 {
		t.Errorf("the new document has expiry %d", got)
	}
}

func TestRelativeAndAbsoluteExpiry(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asked time.Duration
		want  int64 // seconds from now
	}{
		{"a second", time.Second, 1},
		{"gocb rounds down", 1999 * time.Millisecond, 1},
		{"just below 30 days, relative", 30*day - time.Second, 30*24*60*60 - 1},
		{"30 days, which gocb sends as a time", 30 * day, 30 * 24 * 60 * 60},
		{"90 days, absolute", 90 * day, 90 * 24 * 60 * 60},
		{"50 years", 50 * 365 * day, 50 * 365 * 24 * 60 * 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// gocb turns long expiries into times with the real clock, so the
			// node's must agree with it.
			node := couchbasetest.Start(t)
			col := node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()
			before := time.Now().Unix()
			_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: tt.asked})
			must(t, err)
			after := time.Now().Unix()
			if got := expiryOf(t, col, "k"); got < before+tt.want || got > after+tt.want {
				t.Errorf("expiry %d, want %d to %d", got, before+tt.want, after+tt.want)
			}
		})
	}
}

func TestAbsoluteExpiryInThePastIsNotForEver(t *testing.T) {
	// 90 days from the real now lie in the past of a node in the year 2100.
	node := couchbasetest.Start(t)
	node.SetTime(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	col := node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: 90 * day})
	must(t, err)
	_, err = col.Get("k", nil)
	wantErr(t, err, gocb.ErrDocumentNotFound)
}

func TestTouchWithUnchangedExpiryIsNoMutation(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: time.Hour})
	must(t, err)
	stored, err := col.Get("k", nil)
	must(t, err)
	seqno := lookupRaw(t, col, "k", "$document.seqno", true)

	before := node.Counts()
	got, err := col.GetAndTouch("k", time.Hour, nil)
	must(t, err)
	touched, err := col.Touch("k", time.Hour, nil)
	must(t, err)
	if got.Cas() != stored.Cas() || touched.Cas() != stored.Cas() {
		t.Errorf("CAS went from %d to %d and %d", stored.Cas(), got.Cas(), touched.Cas())
	}
	want := couchbasetest.Counts{GetAndTouch: 1, Touch: 1}
	if got := node.Counts().Since(before); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if now := lookupRaw(t, col, "k", "$document.seqno", true); now != seqno {
		t.Errorf("sequence number went from %s to %s", seqno, now)
	}

	// A second later the same relative expiry is another one.
	node.Advance(time.Second)
	got, err = col.GetAndTouch("k", time.Hour, nil)
	must(t, err)
	if got.Cas() <= stored.Cas() {
		t.Errorf("CAS %d did not grow from %d", got.Cas(), stored.Cas())
	}
	if n := node.Counts().Since(before).Mutations; n != 1 {
		t.Errorf("%d mutations, want 1", n)
	}
	if got, want := expiryOf(t, col, "k"), epoch.Unix()+3601; got != want {
		t.Errorf("expiry %d, want %d", got, want)
	}
}

func TestTouchZeroMeansForEver(t *testing.T) {
	_, col := start(t)
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: time.Hour})
	must(t, err)
	_, err = col.Touch("k", 0, nil)
	must(t, err)
	if got := expiryOf(t, col, "k"); got != 0 {
		t.Errorf("expiry %d after Touch(0), want none", got)
	}
}

func TestPreserveExpiry(t *testing.T) {
	hour := epoch.Add(time.Hour).Unix()
	xattr := []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, &gocb.UpsertSpecOptions{IsXattr: true})}
	for _, tt := range []struct {
		name string
		do   func(*gocb.Collection) error
		want int64
	}{
		{"upsert without", func(c *gocb.Collection) error { _, err := c.Upsert("k", 2, nil); return err }, 0},
		{"upsert with", func(c *gocb.Collection) error {
			_, err := c.Upsert("k", 2, &gocb.UpsertOptions{PreserveExpiry: true})
			return err
		}, hour},
		{"upsert with, and an expiry of its own", func(c *gocb.Collection) error {
			_, err := c.Upsert("k", 2, &gocb.UpsertOptions{PreserveExpiry: true, Expiry: time.Minute})
			return err
		}, hour},
		{"replace without", func(c *gocb.Collection) error { _, err := c.Replace("k", 2, nil); return err }, 0},
		{"replace with", func(c *gocb.Collection) error {
			_, err := c.Replace("k", 2, &gocb.ReplaceOptions{PreserveExpiry: true})
			return err
		}, hour},
		{"sub-document mutation without", func(c *gocb.Collection) error { _, err := c.MutateIn("k", xattr, nil); return err }, 0},
		{"sub-document mutation with", func(c *gocb.Collection) error {
			_, err := c.MutateIn("k", xattr, &gocb.MutateInOptions{PreserveExpiry: true})
			return err
		}, hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, col := start(t)
			_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Expiry: time.Hour})
			must(t, err)
			must(t, tt.do(col))
			if got := expiryOf(t, col, "k"); got != tt.want {
				t.Errorf("expiry %d, want %d", got, tt.want)
			}
		})
	}
	t.Run("a new document takes the expiry it is given", func(t *testing.T) {
		_, col := start(t)
		_, err := col.Upsert("new", 1, &gocb.UpsertOptions{PreserveExpiry: true, Expiry: time.Hour})
		must(t, err)
		if got := expiryOf(t, col, "new"); got != hour {
			t.Errorf("expiry %d, want %d", got, hour)
		}
	})
}

func TestClock(t *testing.T) {
	node := couchbasetest.Start(t)
	if d := time.Since(node.Now()); d < -time.Second || d > time.Minute {
		t.Errorf("a new node is %v off the real clock", d)
	}
	node.Advance(time.Hour)
	if d := time.Until(node.Now()); d < 59*time.Minute || d > time.Hour {
		t.Errorf("an hour on, the node is %v ahead", d)
	}
	node.SetTime(epoch)
	if got := node.Now(); !got.Equal(epoch) {
		t.Errorf("stopped at %v, want %v", got, epoch)
	}
	node.Advance(90 * time.Minute)
	if got, want := node.Now(), epoch.Add(90*time.Minute); !got.Equal(want) {
		t.Errorf("advanced to %v, want %v", got, want)
	}
	node.SetTime(time.Time{})
	if d := time.Since(node.Now()); d < -time.Second || d > time.Minute {
		t.Errorf("back on the real clock, the node is %v off", d)
	}
}
