package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// batchSize is the most commands in one pipeline. The client would read the answers to a much
	// longer one only on a connection of its own.
	batchSize = 500

	// together is how many pipelines of a batch are under way, so that other reads do not wait behind all of
	// them. It is doubled when none is answered for stall: a silent node of a cluster may have keys in each.
	// That is an eighth of the time left to the deadline at most, so that a large batch is sent before it.
	together = 4
	stall    = 200 * time.Millisecond
)

// GetMulti implements driver.BatchGetter, with pipelines of up to 500 GETs. In a cluster the client
// splits them by node: one that is silent until ctx ends leaves its own keys unknown, and records of
// other programs, which take one second trip together. Beside such a node, more than 2,000 keys are
// sent in growing steps, all of them before ctx's deadline.
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
	read := func(at []int, send func(context.Context, []string) []wire.Answer) (foreign []int) {
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
	foreign := read(places, d.gets)
	if len(foreign) > 0 {
		read(foreign, d.readEach)
	}
	if failed != nil {
		return found, failed
	}
	return found, invalid.Err()
}

// gets sends a GET for each of keys. If a new reading of the clock is due, TIME goes with the first key's, beside
// the pipelines: in a cluster those of several nodes carry none.
func (d *Driver[T]) gets(ctx context.Context, keys []string) []wire.Answer {
	if len(keys) == 0 || !d.clock.Due() {
		return d.pipelines(ctx, get, keys)
	}
	first := make(chan wire.Answer, 1)
	go func() { first <- d.timed(ctx, get.With(keys[0])) }()
	others := d.pipelines(ctx, get, keys[1:])
	return append([]wire.Answer{<-first}, others...)
}

// pipelines sends c for each of keys, and returns the answers in their order. It starts none once ctx has ended.
func (d *Driver[T]) pipelines(ctx context.Context, c wire.Command, keys []string) []wire.Answer {
	cs := make([]wire.Command, len(keys))
	for i, key := range keys {
		cs[i] = c.With(key)
	}
	answers := make([]wire.Answer, len(cs))
	var all sync.WaitGroup
	answered := make(chan struct{}, len(cs))
	at, underWay, most, stalls := 0, 0, together, time.Duration(1)
	for at < len(cs) && ctx.Err() == nil {
		if underWay == most {
			wait := stall
			if by, ok := ctx.Deadline(); ok {
				wait = min(wait, time.Until(by)/8)
			}
			select {
			case <-answered:
				underWay--
				stalls = 2 // those that were sent after a stall may be answered as much later
			case <-time.After(wait * stalls):
				most *= 2
				stalls = 1
			case <-ctx.Done():
			}
			continue
		}
		from, end := at, min(at+batchSize, len(cs))
		at = end
		underWay++
		all.Go(func() {
			copy(answers[from:end], d.client.DoMulti(ctx, cs[from:end]))
			answered <- struct{}{}
		})
	}
	for i := range answers[at:] {
		answers[at+i] = wire.Answer{Kind: wire.Unsent, Err: ctx.Err()}
	}
	all.Wait()
	return answers
}
