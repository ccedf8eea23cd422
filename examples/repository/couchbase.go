package main

import (
	"context"
	"errors"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// documents is a repository with gocb calls of its own. It sets no expiry, and does not
// change.
type documents struct{ collection *gocb.Collection }

// Get returns the profile of id.
func (r documents) Get(ctx context.Context, id string) (profile, error) {
	var v profile
	res, err := r.collection.Get(profileKey(id), &gocb.GetOptions{Context: ctx})
	switch {
	case errors.Is(err, gocb.ErrDocumentNotFound):
		return v, errNoProfile
	case err != nil:
		return v, err
	}
	return v, res.Content(&v)
}

// Upsert writes the profile of id.
func (r documents) Upsert(ctx context.Context, id string, v profile) error {
	_, err := r.collection.Upsert(profileKey(id), v, &gocb.UpsertOptions{Context: ctx})
	return err
}

// couchbase runs a Couchbase node in this process, whose clock can be moved.
func (t *team) couchbase() error {
	node, err := couchbasetest.New(nil)
	if err != nil {
		return err
	}
	t.close = append(t.close, node.Close)
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	if err != nil {
		return err
	}
	t.close = append(t.close, func() error { return cluster.Close(nil) })
	collection := cluster.Bucket(node.Bucket()).DefaultCollection()
	t.repo, t.clock = documents{collection}, node
	t.driver = func(context.Context) (driver.Driver[profile], error) {
		// created_at is a field that the documents always had.
		return couchbase.New[profile](collection, &couchbase.Options{CreatedIn: couchbase.Body})
	}
	return nil
}
