package cosmos

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// patience is how long a create that has ended waits for the read that was sent with it.
const patience = 100 * time.Millisecond

// Insert implements driver.Driver, with one create. Over a dead item that still exists it needs a
// read and a replacement too. With Options.Retain there are many such items, so the read is sent
// together with the create.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	m, err := d.insert(ctx, key, v, life, now, d.opts.Retain > 0, false)
	return m.Version, err
}

// insert creates a record. beside: it reads the item together with the create. trusted: a live
// record found by that read, which may be stale, is returned as the conflict.
func (d *Driver[T]) insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant, beside, trusted bool) (driver.Meta, error) {
	k, err := d.identity(key)
	if err != nil {
		return driver.Meta{}, err
	}
	m := driver.Meta{Life: life, Version: kit.NewVersion(maxVersion)}
	body, err := d.encode(k, v, m.Version, life, now)
	if err != nil {
		return driver.Meta{}, err
	}
	var dead driver.Meta // the dead item to replace
	w := conditional{k: k, sum: &d.stats.WriteUnits, creates: true, trusted: trusted,
		send: func(ctx context.Context, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error) {
			if o == nil {
				dead = driver.Meta{}
				return d.client.CreateItem(ctx, d.partitionKey(k), body, nil)
			}
			return d.client.ReplaceItem(ctx, d.partitionKey(k), k.id, body, o)
		},
		judge: func(found stored) kit.Verdict {
			switch {
			case found.Version == m.Version:
				return kit.Landed
			case found.Alive(now):
				return kit.InTheWay
			}
			dead = found.Meta
			return kit.Meant
		},
	}
	if beside {
		found := make(chan stored, 1)
		w.beside = found
		reading, stop := context.WithCancel(d.withKey(ctx, k))
		go func() {
			defer close(found)
			_ = hook.Recover(func() error { // a later call reports the error
				s, err := d.readForWrite(reading, k)
				if err == nil {
					found <- s
				}
				return err
			})
		}()
		defer func() {
			// To stop it at once would mostly close a connection whose answer is about to arrive.
			defer time.AfterFunc(patience, stop).Stop()
			for range found {
			}
			stop()
		}()
	}
	etag, err := d.carryOut(ctx, &w, now)
	if err == nil && dead != (driver.Meta{}) {
		driver.Replaced(ctx, dead)
	}
	return d.written(m, etag, err)
}

// written returns the Meta after a write that ended with err.
func (d *Driver[T]) written(m driver.Meta, etag string, err error) (driver.Meta, error) {
	if err != nil {
		return driver.Meta{}, err
	}
	d.etags.remember(m, etag)
	return m, nil
}

// Replace implements driver.Driver, with one replacement for the remembered _etag, else
// after a read.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.identity(key)
	if err != nil {
		return 0, err
	}
	m := driver.Meta{Life: life, Version: kit.NewVersion(maxVersion)}
	body, err := d.encode(k, v, m.Version, life, now)
	if err != nil {
		return 0, err
	}
	etag, err := d.carryOutOver(ctx, &conditional{k: k, sum: &d.stats.WriteUnits,
		send: func(ctx context.Context, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error) {
			return d.client.ReplaceItem(ctx, d.partitionKey(k), k.id, body, o)
		},
		judge: func(found stored) kit.Verdict {
			if found.Version == m.Version {
				return kit.Landed
			}
			return found.still(was, now)
		},
	}, was, now, false)
	m, err = d.written(m, etag, err)
	return m.Version, err
}

// Delete implements driver.Driver, with one unconditional delete.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	k, err := d.identity(key)
	if err != nil {
		return err
	}
	_, err = d.carryOut(ctx, d.removal(k, func(stored) kit.Verdict { return kit.InTheWay }), 0)
	if errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return err
}

// Remove implements driver.Remover, with one delete for the remembered _etag, else after a
// read.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	k, err := d.identity(key)
	if err != nil {
		return err
	}
	_, err = d.carryOutOver(ctx, d.removal(k, func(found stored) kit.Verdict { return found.still(was, now) }), was, now, false)
	return err
}

func (d *Driver[T]) removal(k identity, judge func(stored) kit.Verdict) *conditional {
	return &conditional{k: k, sum: &d.stats.WriteUnits, judge: judge,
		send: func(ctx context.Context, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error) {
			return d.client.DeleteItem(ctx, d.partitionKey(k), k.id, o)
		},
	}
}
