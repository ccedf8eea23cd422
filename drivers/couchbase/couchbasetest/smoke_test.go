package couchbasetest

import (
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
)

func TestSmoke(t *testing.T) {
	n := Start(t)
	start := time.Now()
	cl := n.Cluster(t)
	t.Log("ready after", time.Since(start))
	col := cl.Bucket(n.Bucket()).DefaultCollection()
	if _, err := col.Upsert("k", map[string]any{"a": 1}, &gocb.UpsertOptions{Expiry: time.Hour}); err != nil {
		t.Fatal(err)
	}
	res, err := col.Get("k", &gocb.GetOptions{WithExpiry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(res.ExpiryTime(), res.Cas())
	lr, err := col.LookupIn("k", []gocb.LookupInSpec{
		gocb.GetSpec("$document", &gocb.GetSpecOptions{IsXattr: true}),
		gocb.GetSpec("$vbucket.HLC", &gocb.GetSpecOptions{IsXattr: true}),
		gocb.GetSpec("", nil),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var a, b, c any
	t.Log(lr.ContentAt(0, &a), lr.ContentAt(1, &b), lr.ContentAt(2, &c), a, b, c)
	mr, err := col.MutateIn("k", []gocb.MutateInSpec{
		gocb.UpsertSpec("created_at", "${Mutation.CAS}", &gocb.UpsertSpecOptions{IsXattr: true}),
		gocb.ReplaceSpec("", map[string]any{"b": 2}, nil),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(mr.MutationToken(), mr.Cas())
	t.Logf("%+v", n.Counts())
	set, err := cl.Buckets().GetBucket("default", nil)
	t.Log(set, err)
	sc, err := cl.Bucket("default").CollectionsV2().GetAllScopes(nil)
	t.Log(sc, err)
}
