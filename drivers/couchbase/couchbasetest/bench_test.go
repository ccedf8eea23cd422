package couchbasetest_test

import (
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

// The benchmarks are of gocb and the node together, as tests see them.

func BenchmarkGet(b *testing.B) {
	benchmark(b, func(col *gocb.Collection) error {
		_, err := col.Get("k", nil)
		return err
	})
}

func BenchmarkLookupIn(b *testing.B) {
	specs := []gocb.LookupInSpec{
		gocb.GetSpec("$document.exptime", fromXattr), gocb.GetSpec("created_at", fromXattr), gocb.GetSpec("", nil),
	}
	benchmark(b, func(col *gocb.Collection) error {
		_, err := col.LookupIn("k", specs, nil)
		return err
	})
}

func BenchmarkUpsert(b *testing.B) {
	benchmark(b, func(col *gocb.Collection) error {
		_, err := col.Upsert("k", user{"Alice", 7}, &gocb.UpsertOptions{Expiry: time.Hour})
		return err
	})
}

func benchmark(b *testing.B, op func(*gocb.Collection) error) {
	node := couchbasetest.Start(b)
	col := node.Cluster(b).Bucket(node.Bucket()).DefaultCollection()
	_, err := col.MutateIn("k", []gocb.MutateInSpec{
		gocb.UpsertSpec("created_at", 1234, inXattr),
		gocb.ReplaceSpec("", user{"Alice", 7}, nil),
	}, &gocb.MutateInOptions{Expiry: time.Hour, StoreSemantic: gocb.StoreSemanticsUpsert})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := op(col); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
