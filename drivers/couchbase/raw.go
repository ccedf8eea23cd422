package couchbase

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader: the document's body as it is stored, in one lookup. The
// format is "json", or "bytes" for what is no JSON.
func (d *Driver[T]) Raw(ctx context.Context, key string) (driver.Raw, error) {
	virtual := &gocb.GetSpecOptions{IsXattr: true}
	res, err := d.lookup(ctx, key, []gocb.LookupInSpec{d.peek[expiryAt], d.peek[peekCreatedAt], gocb.GetSpec("$document.CAS", virtual), gocb.GetSpec("", nil)})
	if err != nil {
		return driver.Raw{}, err
	}
	raw := driver.Raw{Format: "bytes", Fields: make(map[string]string)}
	if err := res.ContentAt(3, &raw.Value); err != nil && !errors.Is(err, gocb.ErrPathNotFound) {
		return driver.Raw{}, visible(err)
	}
	if json.Valid(raw.Value) {
		raw.Format = "json"
	}
	if raw.ExpiresAt, err = expiresAt(res); err != nil {
		return driver.Raw{}, err
	}
	raw.CreatedAt, raw.Problem = d.createdAt(res, peekCreatedAt)
	if raw.Problem != nil && !errors.Is(raw.Problem, driver.ErrInvalid) {
		return driver.Raw{}, raw.Problem
	}
	raw.Version = driver.Version(res.Cas())
	for i, name := range []string{"$document.exptime", d.created.path, "$document.CAS"} {
		var field []byte
		if res.ContentAt(uint(i), &field) == nil {
			raw.Fields[name] = string(field)
		}
	}
	return raw, nil
}
