package couchbasetest_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

// A program that is no test runs a node like a server. A test uses Start and
// Node.Cluster, which do the same in two lines.
func Example() {
	node, err := couchbasetest.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	node.SetTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close(nil)
	if err := cluster.WaitUntilReady(10*time.Second, management); err != nil {
		log.Fatal(err)
	}
	bucket := cluster.Bucket(node.Bucket())
	if err := bucket.WaitUntilReady(10*time.Second, nil); err != nil {
		log.Fatal(err)
	}
	sessions := bucket.DefaultCollection()

	_, err = sessions.Upsert("session", map[string]string{"user": "alice"}, &gocb.UpsertOptions{Expiry: 30 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	node.Advance(30 * time.Minute)
	_, err = sessions.Get("session", nil)
	fmt.Println("after 30 minutes:", err)

	node.Advance(time.Second)
	_, err = sessions.Get("session", nil)
	fmt.Println("a second later, found:", !errors.Is(err, gocb.ErrDocumentNotFound))
	// Output:
	// after 30 minutes: <nil>
	// a second later, found: false
}

func ExampleNode_Counts() {
	node, sessions, done := connectForExample()
	defer done()
	if _, err := sessions.Upsert("session", "alice", &gocb.UpsertOptions{Expiry: time.Hour}); err != nil {
		log.Fatal(err)
	}

	before := node.Counts()
	for range 3 { // the clock stands: the expiry asked for is the one it has
		if _, err := sessions.GetAndTouch("session", time.Hour, nil); err != nil {
			log.Fatal(err)
		}
	}
	after := node.Counts().Since(before)
	fmt.Println("get-and-touch:", after.GetAndTouch, "mutations:", after.Mutations)
	// Output: get-and-touch: 3 mutations: 0
}

func ExampleNode_Inject() {
	node, sessions, done := connectForExample()
	defer done()
	if _, err := sessions.Upsert("session", "alice", nil); err != nil {
		log.Fatal(err)
	}

	// The next touch takes effect, but the answer says that it did not.
	err := node.Inject(couchbasetest.Fault{
		Ops:     []couchbasetest.Op{couchbasetest.OpTouch},
		Status:  memd.StatusSyncWriteAmbiguous,
		Applied: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = sessions.Touch("session", time.Hour, nil)
	fmt.Println("ambiguous:", errors.Is(err, gocb.ErrDurabilityAmbiguous))
	fmt.Println("mutations:", node.Counts().Mutations)
	// Output:
	// ambiguous: true
	// mutations: 2
}

func connectForExample() (*couchbasetest.Node, *gocb.Collection, func()) {
	node, err := couchbasetest.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	node.SetTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	if err != nil {
		log.Fatal(err)
	}
	if err := cluster.WaitUntilReady(10*time.Second, management); err != nil {
		log.Fatal(err)
	}
	return node, cluster.Bucket(node.Bucket()).DefaultCollection(), func() {
		_ = cluster.Close(nil)
		_ = node.Close()
	}
}
