package bboltdriver

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const maxPage = 1000 // a page is one transaction, and while it lasts the file keeps what it sees

// place is what a cursor holds: the last key of the page before.
type place struct{ After []byte }

// Segments implements driver.Scanner: there is one.
func (d *store) Segments(_ context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	return []driver.Cursor{driver.EncodeCursor(place{})}, nil
}

// Scan implements driver.Scanner, in the order of the keys.
func (d *store) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	var at place
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	if err := driver.DecodeCursor(from, &at); err != nil {
		return driver.Page{}, err
	}
	if driver.EncodeCursor(at) != from { // it is JSON, of another driver
		return driver.Page{}, driver.BadCursor(from)
	}
	return call(ctx, d, reading, func(b *bolt.Bucket) (page driver.Page, err error) {
		c := b.Cursor()
		k, v := c.Seek(at.After)
		if bytes.Equal(k, at.After) {
			k, v = c.Next()
		}
		for ; k != nil; k, v = c.Next() {
			if len(page.Records)+page.Passed == min(limit, maxPage) {
				page.Next = driver.EncodeCursor(at)
				return page, nil
			}
			at.After = k
			if v == nil { // a bucket in the bucket
				page.Passed++
				continue
			}
			r := driver.Scanned{Key: string(k), Size: len(k) + len(v)}
			r.Meta, _, r.Problem = split(v)
			page.Records = append(page.Records, r)
		}
		return page, nil
	})
}

// Remove implements driver.Remover. It goes by the caller's time alone: upkeep.Reap names the
// dead by the last moment that they were alive. By a touch, which driver.Remove makes
// otherwise, they would stay in the file.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	if err := driver.CheckKey(key, bolt.MaxKeySize); err != nil {
		return err
	}
	_, err := call(ctx, d.store, writing, func(b *bolt.Bucket) (struct{}, error) {
		found, _, err := alive(b, key, now)
		if err == nil {
			err = match(found, was)
		}
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, b.Delete([]byte(key))
	})
	return err
}
