package couchbase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Mend implements driver.Mender, with one sub-document lookup and one write. It writes a
// created_at that the driver does not read, but that means an instant, in the driver's own
// form: a string of ISO 8601, a number, or a string of one. Numbers below 100,000,000,000
// count seconds since the Unix epoch, others milliseconds.
func (d *Driver[T]) Mend(ctx context.Context, key string, apply bool) (string, error) {
	res, err := d.lookup(ctx, key, d.peek)
	if err != nil {
		return "", err
	}
	r, bad := d.peeked(res)
	if r.Version == 0 || !errors.Is(bad, driver.ErrInvalid) {
		return "", bad
	}
	at := uint(peekStampAt)
	if d.created.body {
		at = peekCreatedAt
	}
	raw, err := d.raw(res, at, d.created.body)
	if err != nil {
		return "", err
	}
	created, ok := parseForeign(raw)
	if !ok {
		return "", bad
	}
	fault := d.created.field() + " is a number"
	if raw[0] == '"' {
		fault = d.created.field() + " is a string"
	}
	switch {
	case !apply:
		return fault, nil
	case driver.Version(res.Cas()) == lockedVersion:
		return "", fmt.Errorf("%w: %w", driver.ErrLocked, gocb.ErrDocumentLocked)
	}
	// Keep the document's expiry, and the stamp that belongs to it.
	until, err := expiry(r.until)
	if err != nil {
		return "", err
	}
	p, err := d.mutateIn(ctx, key, mutation{cas: res.Cas(), expiry: until, ops: []gocbcore.SubDocOp{d.created.set(created)}})
	if err != nil {
		return "", err
	}
	if _, err = p.wait(ctx); moved(err) {
		return "", fmt.Errorf("%w: %w", driver.ErrConflict, err)
	}
	if err != nil {
		return "", err
	}
	return fault, nil
}

// parseForeign reads a JSON value in another form as an instant, if it is one.
func parseForeign(raw []byte) (driver.Instant, bool) {
	text := string(raw)
	if raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return 0, false
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return driver.Floor(t), t.UnixMilli() > 0
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 1 && n < kit.NumberMillis) {
		return 0, false
	}
	if n < kit.NumberSeconds {
		n *= 1000
	}
	return driver.Instant(n), true
}
