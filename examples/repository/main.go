// Repository shows an existing repository, with gocb calls of its own, before and
// after slidingttl.Wrap: the same Get and Upsert, and documents that die of idleness
// and of age. It runs on a Couchbase node in this process, whose clock it moves.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const day = 24 * time.Hour

// repository is all that the rest of the application knows.
type repository = slidingttl.Repository[string, profile]

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	node, err := couchbasetest.New(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close(nil)) }()
	collection := cluster.Bucket(node.Bucket()).DefaultCollection()

	// Before: documents that nobody ever deletes.
	before := profiles{collection}
	if err := live(ctx, "before", before, node); err != nil {
		return err
	}

	// After: the same repository, wrapped. created_at is the field the documents
	// have had all along.
	d, err := couchbase.New[profile](collection, &couchbase.Options{CreatedIn: couchbase.Body})
	if err != nil {
		return err
	}
	policy := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}
	store, err := slidingttl.New(d, policy, &slidingttl.Options[profile]{Now: node.Now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	after, err := slidingttl.Wrap(before, store, profileKey, &slidingttl.WrapOptions[profile]{
		CreatedAt: func(p profile) time.Time { return p.CreatedAt },
	})
	if err != nil {
		return err
	}
	return live(ctx, "after", after, node)
}

// live writes two profiles, reads one of them every ten days, and tells how long the
// two are there.
func live(ctx context.Context, title string, repo repository, node *couchbasetest.Node) error {
	fmt.Printf("%s:\n", title)
	idle, read := title+"-idle", title+"-read"
	for _, id := range []string{idle, read} {
		if err := repo.Upsert(ctx, id, profile{Name: "ann", CreatedAt: node.Now()}); err != nil {
			return err
		}
	}
	start := node.Now()
	for node.Now().Sub(start) < 120*day {
		node.Advance(10 * day)
		if _, err := repo.Get(ctx, read); err != nil {
			fmt.Printf("  a profile read every ten days is gone on day %d: %v\n", int(node.Now().Sub(start)/day), err)
			break
		}
	}
	if _, err := repo.Get(ctx, read); err == nil {
		fmt.Println("  a profile read every ten days is there after 120 days")
	}
	switch _, err := repo.Get(ctx, idle); {
	case err == nil:
		fmt.Println("  one that nobody read is there too")
	default:
		fmt.Printf("  one that nobody read is gone too: %v\n", err)
	}
	return nil
}
