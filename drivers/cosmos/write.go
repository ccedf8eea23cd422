package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// maxSends bounds how often one write is sent: once as a rule, and again for each time that
// the item in the way turned out to be the one that was meant.
const maxSends = 4

// send sends a write, for the item with an _etag, or on the condition that the write itself
// has if there is none.
type send func(ctx context.Context, etag *azcore.ETag) (azcosmos.ItemResponse, error)

// over brings about a write over the record was, and returns the item's _etag after it. With
// conditional set, send has a condition of its own for records with a version.
func (d *Driver[T]) over(ctx context.Context, k identity, was driver.Meta, now driver.Instant, conditional bool, sum *float64, send send) (string, error) {
	ctx, cancel := d.within(ctx, was, now)
	defer cancel()
	var f fate
	written := f.follow(ctx)

	etag := ""
	ready := was.Alive(now)
	if !conditional || was.Version&foreign != 0 {
		etag = d.etags.of(was)
		ready = ready && etag != ""
	}
	for sends := 0; ; {
		var refusal error
		if ready {
			sends++
			res, err := send(written, tagged(etag))
			if err == nil {
				d.sessions.observe(res.RawResponse)
				d.stats.charged(sum, res.RequestCharge)
				return string(res.ETag), nil
			}
			d.sessions.failed(err)
			d.stats.failed(sum, err)
			switch status(err) {
			case http.StatusNotFound:
				d.stats.count(&d.stats.Refused)
				return "", gone(err)
			case http.StatusPreconditionFailed:
				d.stats.count(&d.stats.Refused)
				refusal = unquoted{err}
			case statusRetryWith:
				if sends < maxSends {
					continue
				}
				return "", failed(ctx, err)
			default:
				return "", f.failed(ctx, err)
			}
		}
		found, err := d.look(ctx, k)
		switch {
		case err != nil:
			return "", err
		case !found.Alive(now):
			return "", driver.ErrNotFound
		case found.Meta != was || sends == maxSends:
			return "", &driver.ConflictError{Found: found.Meta, Err: refusal}
		case found.odd != nil:
			return "", found.odd
		}
		if sends > 0 {
			d.stats.count(&d.stats.Again)
		}
		etag, ready = found.etag, true
	}
}

func tagged(etag string) *azcore.ETag {
	if etag == "" {
		return nil
	}
	tag := azcore.ETag(etag)
	return &tag
}

// gone is the error for a record that a write did not find.
func gone(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotFound, unquoted{err}) }

// within bounds a write over the record was by its life, or by what clocks may be apart: one
// that lands later would revive what others have found dead.
func (d *Driver[T]) within(ctx context.Context, was driver.Meta, now driver.Instant) (context.Context, context.CancelFunc) {
	if was.ExpiresAt == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(was.ExpiresAt.Sub(now), d.opts.MaxSkew), errLate)
}

// Insert implements driver.Driver, with one create; over a dead record that is still there
// with a read and a replacement more. With Options.Retain there are many of those, so the
// read is made beside the create.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.identity(key)
	if err != nil {
		return 0, err
	}
	version := newVersion()
	body, err := d.encode(k, v, version, life, now)
	if err != nil {
		return 0, err
	}
	ctx = d.withKey(ctx, k)
	m := driver.Meta{Life: life, Version: version}
	etag := ""
	for sends := range maxSends {
		var refusal error
		if sends == 0 && d.opts.Retain > 0 {
			_, refusal = d.insertLooking(ctx, k, body, m, now) // a live record that it tells of may be out of date
		} else {
			refusal = d.insert(ctx, k, body, m, etag)
		}
		if !errors.Is(refusal, errRefused) {
			return versionUnless(refusal, version), refusal
		}
		found, err := d.look(ctx, k)
		switch {
		case errors.Is(err, driver.ErrNotFound):
			etag = ""
		case err != nil:
			return 0, err
		case found.Alive(now):
			return 0, &driver.ConflictError{Found: found.Meta, Err: refusal}
		default:
			etag = found.etag
		}
	}
	return 0, driver.ErrConflict
}

// errRefused says that an insert met an item, or not the one it was to replace.
var errRefused = errors.New("refused")

// insertLooking creates the item of the record m and looks at once for what may be in the
// way: a dead record it replaces, a live one it returns. If nothing was found, or it cannot be
// told, it returns nil.
func (d *Driver[T]) insertLooking(ctx context.Context, k identity, body []byte, m driver.Meta, now driver.Instant) (*stored, error) {
	aside := make(chan *stored, 1)
	go func() {
		found, err := d.look(ctx, k)
		if err != nil {
			aside <- nil // the insert below will tell
			return
		}
		aside <- &found
	}()
	err := d.insert(ctx, k, body, m, "")
	found := <-aside
	if errors.Is(err, errRefused) && found != nil && !found.Alive(now) {
		return nil, d.insert(ctx, k, body, m, found.etag)
	}
	return found, err
}

// insert creates the item of the record m, or replaces a dead one with that _etag.
func (d *Driver[T]) insert(ctx context.Context, k identity, body []byte, m driver.Meta, etag string) error {
	var f fate
	var res azcosmos.ItemResponse
	var err error
	for range maxSends {
		if etag == "" {
			res, err = d.client.CreateItem(f.follow(ctx), d.partitionKey(k), body, nil)
		} else {
			res, err = d.client.ReplaceItem(f.follow(ctx), d.partitionKey(k), k.id, body, &azcosmos.ItemOptions{IfMatchEtag: tagged(etag)})
		}
		if status(err) != statusRetryWith {
			break
		}
	}
	if err == nil {
		d.sessions.observe(res.RawResponse)
		d.stats.charged(&d.stats.WriteUnits, res.RequestCharge)
		d.etags.remember(m, string(res.ETag))
		return nil
	}
	d.sessions.failed(err)
	d.stats.failed(&d.stats.WriteUnits, err)
	s := status(err)
	if s == http.StatusConflict || etag != "" && (s == http.StatusPreconditionFailed || s == http.StatusNotFound) {
		d.stats.count(&d.stats.Refused)
		return fmt.Errorf("%w: %w", errRefused, unquoted{err})
	}
	return f.failed(ctx, err)
}

// Replace implements driver.Driver, with one replacement for the _etag that is remembered, or
// a read before it.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.identity(key)
	if err != nil {
		return 0, err
	}
	version := newVersion()
	body, err := d.encode(k, v, version, life, now)
	if err != nil {
		return 0, err
	}
	etag, err := d.over(d.withKey(ctx, k), k, was, now, false, &d.stats.WriteUnits, func(ctx context.Context, etag *azcore.ETag) (azcosmos.ItemResponse, error) {
		return d.client.ReplaceItem(ctx, d.partitionKey(k), k.id, body, &azcosmos.ItemOptions{IfMatchEtag: etag})
	})
	if err == nil {
		d.etags.remember(driver.Meta{Life: life, Version: version}, etag)
	}
	return versionUnless(err, version), err
}

func versionUnless(err error, v driver.Version) driver.Version {
	if err != nil {
		return 0
	}
	return v
}

// Delete implements driver.Driver, with one delete on no condition.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	k, err := d.identity(key)
	if err != nil {
		return err
	}
	ctx = d.withKey(ctx, k)
	var f fate
	res, err := d.client.DeleteItem(f.follow(ctx), d.partitionKey(k), k.id, nil)
	if err == nil {
		d.sessions.observe(res.RawResponse)
		d.stats.charged(&d.stats.WriteUnits, res.RequestCharge)
		return nil
	}
	d.sessions.failed(err)
	d.stats.failed(&d.stats.WriteUnits, err)
	if status(err) == http.StatusNotFound {
		return nil
	}
	return f.failed(ctx, err)
}

// Remove implements driver.Remover, with one delete for the _etag that is remembered, or a
// read before it.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	k, err := d.identity(key)
	if err != nil {
		return err
	}
	_, err = d.over(d.withKey(ctx, k), k, was, now, false, &d.stats.WriteUnits, func(ctx context.Context, etag *azcore.ETag) (azcosmos.ItemResponse, error) {
		return d.client.DeleteItem(ctx, d.partitionKey(k), k.id, &azcosmos.ItemOptions{IfMatchEtag: etag})
	})
	return err
}
