package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// batchSize is the most commands in one pipeline. The client would read the answers to a much
// longer one only on a connection of its own.
const batchSize = 500

// GetMulti implements driver.BatchGetter, with pipelines of up to 500 GETs. In a cluster the client
// splits them by node. Records of other programs take one second trip together.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	var failed driver.KeyErrors
	var places []int
	for i, key := range driver.Distinct(keys) {
		if _, err := d.key(key); err != nil {
			failed = append(failed, &driver.KeyError{Index: i, Err: err})
		} else {
			places = append(places, i)
		}
	}
	// add adds the answers for the keys at these indexes, and returns the indexes of those whose
	// expiry has to be read separately.
	add := func(at []int, answers []Answer) (foreign []int, err error) {
		for n, i := range at {
			e, _, err := d.entry(ctx, answers[n])
			switch {
			case err == nil:
				found[keys[i]] = e
			case err == errForeign:
				foreign = append(foreign, i)
			case errors.Is(err, driver.ErrInvalid):
				failed = append(failed, &driver.KeyError{Index: i, Err: err})
			case err != driver.ErrNotFound:
				return nil, err
			}
		}
		return foreign, nil
	}
	for at := range slices.Chunk(places, batchSize) {
		cs := make([]Command, len(at))
		for n, i := range at {
			cs[n] = get.with(d.opts.Prefix + keys[i])
		}
		foreign, err := add(at, d.client.DoMulti(ctx, cs))
		if err == nil && len(foreign) > 0 {
			foreignKeys := make([]string, len(foreign))
			for n, i := range foreign {
				foreignKeys[n] = d.opts.Prefix + keys[i]
			}
			_, err = add(foreign, d.readEach(ctx, foreignKeys))
		}
		if err != nil {
			return found, err
		}
	}
	return found, failed.Err()
}
