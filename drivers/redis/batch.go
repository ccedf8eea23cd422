package redis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// batchSize is how many commands one pipeline has at most. The client's answers to a
// much longer one would wait for a connection of its own.
const batchSize = 500

// GetMulti implements driver.BatchGetter, with pipelines of up to 500 GETs. In a cluster
// the client splits them by node. All records of other programs together take a second
// trip.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	b := batch[T]{d: d, found: make(map[string]driver.Entry[T], len(keys))}
	var at []int
	for i, key := range driver.Distinct(keys) {
		if _, err := d.key(key); err != nil {
			b.failed = append(b.failed, &driver.KeyError{Index: i, Err: err})
			continue
		}
		if at = append(at, i); len(at) == batchSize {
			if err := b.get(ctx, keys, at); err != nil {
				return b.found, err
			}
			at = at[:0]
		}
	}
	if err := b.get(ctx, keys, at); err != nil {
		return b.found, err
	}
	return b.found, b.failed.Err()
}

// batch is a GetMulti.
type batch[T any] struct {
	d      *Driver[T]
	found  map[string]driver.Entry[T]
	failed driver.KeyErrors
}

// get reads those of keys that stand at these places.
func (b *batch[T]) get(ctx context.Context, keys []string, at []int) error {
	if len(at) == 0 {
		return nil
	}
	cmds := make(rueidis.Commands, len(at))
	for n, i := range at {
		cmds[n] = again(b.d.get(b.d.opts.Prefix + keys[i]))
	}
	foreign, err := b.add(ctx, keys, at, b.d.client.DoMulti(ctx, cmds...))
	if err != nil || len(foreign) == 0 {
		return err
	}
	looks := make([]string, len(foreign))
	for n, i := range foreign {
		looks[n] = b.d.opts.Prefix + keys[i]
	}
	_, err = b.add(ctx, keys, foreign, b.d.evalEach(ctx, b.d.client, lookScript, looks))
	return err
}

// add takes in the answers for the keys at these places, and returns the places of those
// whose expiry is still to be asked for.
func (b *batch[T]) add(ctx context.Context, keys []string, at []int, results []rueidis.RedisResult) (foreign []int, err error) {
	for n, i := range at {
		e, _, err := b.d.entry(ctx, results[n])
		switch {
		case err == nil:
			b.found[keys[i]] = e
		case err == errForeign:
			foreign = append(foreign, i)
		case errors.Is(err, driver.ErrInvalid):
			b.failed = append(b.failed, &driver.KeyError{Index: i, Err: err})
		case err != driver.ErrNotFound:
			return nil, err
		}
	}
	return foreign, nil
}
