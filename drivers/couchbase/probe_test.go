package couchbase

import (
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

// With a probe Check finds a created_at that no write can set, whatever New lets pass.
func TestCheckWritesCreatedAt(t *testing.T) {
	node := couchbasetest.Start(t)
	c := node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()
	for _, in := range []Place{Xattr, Body} {
		d, err := New[map[string]any](c, &Options{CreatedIn: in, ProbeKey: "probe"})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(t.Context(), time.Hour); err != nil {
			t.Errorf("place %d: %v", in, err)
		}
		d.created.path = "app" + strings.Repeat(".x", 40)
		d.read, d.peek = specs(d.created, d.codec)
		if err := d.Check(t.Context(), time.Hour); err == nil {
			t.Errorf("place %d: Check passes a created_at that cannot be written", in)
		}
	}
}
