package couchbase

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader: the document's body as it is stored, in one lookup. The
// format is "json", or "bytes" for what is no JSON.
func (d *Driver[T]) Raw(ctx context.Context, key string) (driver.Raw, error) {
	specs := append(slices.Clone(d.peek), flagsSpec, gocb.GetSpec("$document.CAS", &gocb.GetSpecOptions{IsXattr: true}), gocb.GetSpec("", nil))
	res, err := d.lookup(ctx, key, specs)
	if err != nil {
		return driver.Raw{}, err
	}
	raw := driver.Raw{Format: "bytes", Fields: make(map[string]string)}
	if err := res.ContentAt(uint(len(specs)-1), &raw.Value); err != nil && !errors.Is(err, gocb.ErrPathNotFound) {
		return driver.Raw{}, visible(err)
	}
	if json.Valid(raw.Value) {
		raw.Format = "json"
	}
	r, err := d.peeked(res)
	if err != nil && !errors.Is(err, driver.ErrInvalid) {
		return driver.Raw{}, err
	}
	raw.Meta, raw.Problem = r.Meta, err
	names := []string{"$document.exptime", d.created.stampedPath()}
	if d.created.body {
		names = append(names, d.created.path)
	}
	names = append(names, "$document.flags", "$document.CAS")
	for i, name := range names {
		var field []byte
		if res.ContentAt(uint(i), &field) == nil {
			raw.Fields[name] = string(field)
		}
	}
	return raw, nil
}
