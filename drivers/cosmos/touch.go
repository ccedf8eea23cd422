package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Touch implements driver.Driver, with one patch, or more; see the package comment. It leaves
// the version as it is; an item that has none gets one.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.identity(key)
	if err != nil {
		return 0, err
	}
	if err := life.Check(latest); err != nil {
		return 0, err
	}
	version := was.Version
	if version == 0 || version&foreign != 0 {
		version = kit.NewVersion(maxVersion)
	}
	m := driver.Meta{Life: life, Version: version}
	w := &conditional{k: k, sum: &d.stats.TouchUnits}
	w.send = func(ctx context.Context, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error) {
		var patch azcosmos.PatchOperations
		if o == nil {
			patch.SetCondition(d.opts.condition(was))
		}
		d.opts.patch(&patch, was, life, now, o != nil)
		if version != was.Version {
			patch.AppendSet("/"+d.opts.Version, uint64(version))
		}
		return d.client.PatchItem(ctx, d.partitionKey(k), k.id, patch, o)
	}
	w.judge = func(found stored) kit.Verdict {
		if w.Stored(found.Meta, m, version != was.Version, now) {
			return kit.Landed
		}
		return found.still(was, now)
	}
	etag, err := d.carryOutOver(ctx, w, was, now, true)
	m, err = d.written(m, etag, err)
	return m.Version, err
}

// patch appends the operations that write life over was. rewrite also writes an unchanged
// created_at, which the item may have in an unusual form.
func (o *Options) patch(patch *azcosmos.PatchOperations, was driver.Meta, life driver.Life, now driver.Instant, rewrite bool) {
	if life.CreatedAt == 0 && was.CreatedAt != 0 {
		plain := Options{} // back to another program's record: no retention
		patch.AppendSet("/"+ttlName, plain.ttl(life, now))
		patch.AppendRemove("/" + o.CreatedAt)
		patch.AppendRemove("/" + o.ExpiresAt)
		return
	}
	if life.ExpiresAt != 0 {
		patch.AppendSet("/"+o.ExpiresAt, written(life.ExpiresAt))
	} else {
		patch.AppendSet("/"+o.ExpiresAt, json.RawMessage("null")) // a nil value would be omitted
	}
	patch.AppendSet("/"+ttlName, o.ttl(life, now))
	if life.CreatedAt != was.CreatedAt || rewrite && life.CreatedAt != 0 {
		patch.AppendSet("/"+o.CreatedAt, written(life.CreatedAt))
	}
}

// condition is a patch condition on the record was in its usual form. azcosmos writes it into JSON
// unescaped, so it has no character that JSON escapes.
func (o *Options) condition(was driver.Meta) string {
	var b strings.Builder
	fmt.Fprintf(&b, "FROM c WHERE c['%s']=%d", o.Version, was.Version)
	for _, i := range []struct {
		name string
		at   driver.Instant
	}{{o.CreatedAt, was.CreatedAt}, {o.ExpiresAt, was.ExpiresAt}} {
		if i.at == 0 {
			fmt.Fprintf(&b, " AND NOT IS_DEFINED(c['%s'])", i.name)
		} else {
			fmt.Fprintf(&b, " AND c['%s']='%s'", i.name, written(i.at))
		}
	}
	return b.String()
}
