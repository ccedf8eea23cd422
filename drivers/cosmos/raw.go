package cosmos

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader, with the requests of Latest. The format is "json": the
// whole item, with the properties that Cosmos DB adds.
func (d *Driver[T]) Raw(ctx context.Context, key string) (driver.Raw, error) {
	body, err := d.latest(ctx, key)
	if err != nil {
		return driver.Raw{}, err
	}
	item := gjson.ParseBytes(body)
	s := d.read(item)
	raw := driver.Raw{Meta: s.Meta, Format: "json", Value: body, Fields: make(map[string]string), Problem: s.odd}
	for _, name := range []string{d.opts.CreatedAt, d.opts.ExpiresAt, ttlName, "_ts", d.opts.Version} {
		if v := item.Get(gjson.Escape(name)); v.Exists() {
			raw.Fields[name] = v.String()
		}
	}
	return raw, nil
}
