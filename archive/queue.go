package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// QueueOptions adjusts a Queue. The zero value, and nil, mean the defaults.
type QueueOptions struct {
	// Batch is the number of records in one call at most. Zero: 5000.
	Batch int

	// BatchBytes bounds the bytes of values in one call, and also of those that wait
	// meanwhile. A longer value gets a call of its own. Zero: 32 MiB.
	BatchBytes int

	// Every is how long a record waits for others at most. A longer time makes fewer files,
	// because each batch makes one for each of its days. Zero: a minute.
	Every time.Duration

	// OnError is called with the error of a failed call. The same records are handed over
	// again a second later. Nil: not called.
	OnError func(error)
}

const (
	queueBatch = 5000
	queueBytes = 32 << 20
	queueEvery = time.Minute
	queueRetry = time.Second
)

// Queue collects dead records in memory, from a store that reports them one by one. Its
// content, at most two batches, is lost with the process, like the records of a store in memory.
type Queue struct {
	bury func(context.Context, []driver.Dead) error
	opts QueueOptions

	dead  chan driver.Dead
	room  *semaphore.Weighted // of values, in bytes
	ended chan struct{}       // closed when Add takes no more records
	end   sync.Once
	done  chan struct{} // closed when the goroutine has ended
	ctx   context.Context
	stop  context.CancelFunc
	left  int // records lost; valid once done is closed

	first atomic.Int64 // time of death of the next batch's first record, zero for no batch
}

// NewQueue returns a Queue that hands its records to bury, such as a Grave's Bury. Close
// ends it. Errors: *driver.InvalidError.
func NewQueue(bury func(context.Context, []driver.Dead) error, opts *QueueOptions) (*Queue, error) {
	var o QueueOptions
	if opts != nil {
		o = *opts
	}
	switch {
	case bury == nil:
		return nil, &driver.InvalidError{Field: "bury", Value: "nil", Rule: "is required"}
	case o.Batch < 0:
		return nil, &driver.InvalidError{Field: "QueueOptions.Batch", Value: fmt.Sprint(o.Batch), Rule: "must not be negative"}
	case o.BatchBytes < 0:
		return nil, &driver.InvalidError{Field: "QueueOptions.BatchBytes", Value: fmt.Sprint(o.BatchBytes), Rule: "must not be negative"}
	case o.Every < 0:
		return nil, &driver.InvalidError{Field: "QueueOptions.Every", Value: o.Every.String(), Rule: "must not be negative"}
	}
	if o.Batch == 0 {
		o.Batch = queueBatch
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = queueBytes
	}
	if o.Every == 0 {
		o.Every = queueEvery
	}
	q := &Queue{bury: bury, opts: o, dead: make(chan driver.Dead, o.Batch), room: semaphore.NewWeighted(2 * int64(o.BatchBytes)), ended: make(chan struct{}), done: make(chan struct{})}
	q.ctx, q.stop = context.WithCancel(context.Background())
	go q.run()
	return q, nil
}

// Add takes a dead record, and waits while the queue is full. So a store whose hook calls
// it removes no more records than can be archived. It reports whether it took the record:
// after Close it does not.
func (q *Queue) Add(d driver.Dead) bool {
	select {
	case <-q.ended:
		return false
	default:
	}
	if q.room.Acquire(q.ctx, q.size(&d)) != nil {
		return false
	}
	select {
	case q.dead <- d:
		return true
	case <-q.ended:
		return false
	}
}

// size returns the bytes of room that d takes up.
func (q *Queue) size(d *driver.Dead) int64 { return int64(min(len(d.Value), q.opts.BatchBytes)) }

// OnExpiry returns a hook for memory.Options.OnExpiry that adds dead records to q, values as JSON.
//
// R is memory.Reason, which says whether a record was deleted; the Grave's policy decides
// between the other reasons. If encoding/json fails on a value, OnError gets the error and
// the record is lost.
//
//	OnExpiry: archive.OnExpiry[Session, memory.Reason](queue)
func OnExpiry[T any, R fmt.Stringer](q *Queue) func(key string, last driver.Entry[T], why R) {
	return func(key string, last driver.Entry[T], why R) {
		value, err := json.Marshal(last.Value)
		if err != nil {
			q.report(&driver.InvalidError{Field: "value", Value: fmt.Sprint("of type ", reflect.TypeFor[T]()), Rule: "must be one that encoding/json takes", Err: err})
			return
		}
		q.Add(driver.Dead{Key: key, Raw: driver.Raw{Meta: last.Meta, Format: "json", Value: value}, At: last.ExpiresAt, Deleted: why.String() == string(Deleted)})
	}
}

// Close hands over the records in q. If ctx ends first, the error says how many are lost.
// Close the store before, because it adds to q.
func (q *Queue) Close(ctx context.Context) error {
	q.end.Do(func() { close(q.ended) })
	select {
	case <-q.done:
	case <-ctx.Done():
		q.stop()
		<-q.done
	}
	q.stop()
	if q.left > 0 {
		return fmt.Errorf("archive: %d dead records were not handed over: %w", q.left, context.Cause(ctx))
	}
	return nil
}

// Through returns the time up to which all deaths are handed over, for Grave.Through.
func (q *Queue) Through() time.Time {
	if at := q.first.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Now()
}

func (q *Queue) run() {
	defer close(q.done)
	for {
		batch, more := q.gather()
		for len(batch) > 0 {
			err := q.bury(q.ctx, batch)
			if err == nil {
				q.first.Store(0)
				for i := range batch {
					q.room.Release(q.size(&batch[i]))
				}
				break
			}
			q.report(err)
			if !q.pause() {
				q.left = len(batch) + len(q.dead)
				return
			}
		}
		if !more {
			return
		}
	}
}

// gather waits for a batch, and reports whether there may be more.
func (q *Queue) gather() (batch []driver.Dead, more bool) {
	var late <-chan time.Time
	for size := int64(0); len(batch) < q.opts.Batch && size < int64(q.opts.BatchBytes); {
		select {
		case d := <-q.dead:
			size += q.size(&d)
			if batch = append(batch, d); len(batch) == 1 {
				q.first.Store(int64(d.At))
				t := time.NewTimer(q.opts.Every)
				defer t.Stop()
				late = t.C
			}
		case <-late:
			return batch, true
		case <-q.ended:
			if len(q.dead) == 0 {
				return batch, false
			}
		}
	}
	return batch, true
}

// pause waits before another attempt, and reports whether there is to be one.
func (q *Queue) pause() bool {
	t := time.NewTimer(queueRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return q.ctx.Err() == nil
	case <-q.ctx.Done():
		return false
	}
}

func (q *Queue) report(err error) {
	if q.opts.OnError != nil {
		q.opts.OnError(err)
	}
}
