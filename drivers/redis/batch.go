package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// batchSize is the most commands in one pipeline. The client would read the answers to a much
	// longer one only on a connection of its own.
	batchSize = 500

	// together is how many pipelines of a batch are sent at a time, so that other reads do not wait behind
	// all of them. If none is answered for stall, a node may be silent: those under way count no more then.
	together = 4
	stall    = 200 * time.Millisecond
)

// GetMulti implements driver.BatchGetter, with pipelines of up to 500 GETs. In a cluster the client
// splits them by node: one that is silent until ctx ends leaves its own keys unknown, and records of
// other programs, which take one second trip together.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	var invalid driver.KeyErrors
	var places []int
	for i, key := range driver.Distinct(keys) {
		if _, err := d.key(key); err != nil {
			invalid = append(invalid, &driver.KeyError{Index: i, Err: err})
		} else {
			places = append(places, i)
		}
	}
	var failed error // the first
	// read reads the keys at these indexes, and returns the indexes of those whose expiry has to be
	// read separately.
	read := func(at []int, send func(context.Context, []string) []Answer) (foreign []int) {
		of := make([]string, len(at))
		for n, i := range at {
			of[n] = d.opts.Prefix + keys[i]
		}
		for n, a := range send(ctx, of) {
			i := at[n]
			e, _, err := d.entry(ctx, a)
			switch {
			case err == nil:
				found[keys[i]] = e
			case err == errForeign:
				foreign = append(foreign, i)
			case errors.Is(err, driver.ErrInvalid):
				invalid = append(invalid, &driver.KeyError{Index: i, Err: err})
			case err != driver.ErrNotFound && failed == nil:
				failed = err
			}
		}
		return foreign
	}
	foreign := read(places, func(ctx context.Context, keys []string) []Answer { return d.pipelines(ctx, get, keys) })
	if len(foreign) > 0 {
		read(foreign, d.readEach)
	}
	if failed != nil {
		return found, failed
	}
	return found, invalid.Err()
}

// pipelines sends c for each of keys, and returns the answers in their order.
func (d *Driver[T]) pipelines(ctx context.Context, c Command, keys []string) []Answer {
	cs := make([]Command, len(keys))
	for i, key := range keys {
		cs[i] = c.with(key)
	}
	answers := make([]Answer, len(cs))
	var all sync.WaitGroup
	places := make(chan struct{}, together)
	for at := 0; at < len(cs); at += batchSize {
		end := min(at+batchSize, len(cs))
		select {
		case places <- struct{}{}:
		case <-time.After(stall):
			places = make(chan struct{}, together)
			places <- struct{}{}
		}
		taken := places
		all.Go(func() {
			copy(answers[at:end], d.client.DoMulti(ctx, cs[at:end]))
			<-taken
		})
	}
	all.Wait()
	return answers
}
