package couchbase

import (
	"context"
	"errors"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"
)

// pending is a write that has been sent.
type pending struct {
	op    gocbcore.PendingOp
	done  chan outcome
	place place
	size  int       // of the value in bytes; zero: it writes none
	doc   *document // what a sub-document write stores, over the flags of the document that was there
}

type outcome struct {
	cas gocbcore.Cas
	err error
}

// frame has the options common to all writes by gocbcore.
type frame struct {
	key        []byte
	scope      string
	collection string
	retry      gocbcore.RetryStrategy
	durability memd.DurabilityLevel
	durable    time.Duration
	deadline   time.Time
	trace      gocbcore.RequestSpanContext
}

// send sends a write through the collection's gocbcore agent: gocb takes an expiry only as a
// duration, and a document only as JSON.
func (d *Driver[T]) send(ctx context.Context, key string, call func(*gocbcore.Agent, frame, func(gocbcore.Cas, error)) (gocbcore.PendingOp, error)) (pending, error) {
	if err := ctx.Err(); err != nil {
		return pending{}, err
	}
	agent, err := d.collection.Bucket().Internal().IORouter()
	if err != nil {
		return pending{}, err
	}
	f := frame{
		key:        []byte(key),
		scope:      d.collection.ScopeName(),
		collection: d.collection.Name(),
		deadline:   time.Now().Add(d.opts.Timeout),
	}
	f.retry = retries{before(ctx, f.deadline, d.writeRetry)}
	if level := d.opts.Durability; level > gocb.DurabilityLevelNone {
		f.durability = durabilities[level]
		// The server gives up a little before the client does, so that its
		// answer, which is less ambiguous, still arrives.
		f.durable = max(d.opts.Timeout*9/10, leastDurableTimeout)
	}
	if span := d.span(ctx); span != nil {
		f.trace = span.Context()
	}
	p := pending{done: make(chan outcome, 1), place: d.created}
	p.op, err = call(agent, f, func(cas gocbcore.Cas, err error) { p.done <- outcome{cas, err} })
	return p, failure(ctx, err)
}

// wait waits for the answer and returns the new CAS. A write that is given up because ctx ended is
// ambiguous.
func (p pending) wait(ctx context.Context) (gocb.Cas, error) {
	var o outcome
	select {
	case o = <-p.done:
	case <-ctx.Done():
		p.op.Cancel()
		o = <-p.done
	}
	var sub gocbcore.SubDocumentError // the first operation writes an xattr
	err := p.place.outOfReach(written(ctx, o.err), p.place.body && errors.As(o.err, &sub) && sub.Index > 0)
	return gocb.Cas(o.cas), tooLarge(err, p.size)
}

// beside returns a context for a lookup that is sent together with the write. It ends patience after
// the write's answer: not at once, since gocb logs answers that nobody waits for. A lookup of the record
// that the write met, if it met one, has all its time.
func (p pending) beside(ctx context.Context, ofMet bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case o := <-p.done:
			p.done <- o
			if !ofMet || !moved(o.err) {
				time.AfterFunc(patience, cancel)
			}
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

var durabilities = map[gocb.DurabilityLevel]memd.DurabilityLevel{
	gocb.DurabilityLevelMajority:                   memd.DurabilityLevelMajority,
	gocb.DurabilityLevelMajorityAndPersistOnMaster: memd.DurabilityLevelMajorityAndPersistOnMaster,
	gocb.DurabilityLevelPersistToMajority:          memd.DurabilityLevelPersistToMajority,
}

// mutation is a sub-document write.
type mutation struct {
	flags  memd.SubdocDocFlag
	cas    gocb.Cas
	expiry uint32
	ops    []gocbcore.SubDocOp
	retry  gocb.RetryStrategy // nil: as other writes
}

// mutateIn sends a sub-document write.
func (d *Driver[T]) mutateIn(ctx context.Context, key string, m mutation) (pending, error) {
	return d.send(ctx, key, func(agent *gocbcore.Agent, f frame, done func(gocbcore.Cas, error)) (gocbcore.PendingOp, error) {
		if m.retry != nil {
			f.retry = retries{before(ctx, f.deadline, m.retry)}
		}
		return agent.MutateIn(gocbcore.MutateInOptions{
			Key:                    f.key,
			Flags:                  m.flags,
			Cas:                    gocbcore.Cas(m.cas),
			Expiry:                 m.expiry,
			Ops:                    m.ops,
			ScopeName:              f.scope,
			CollectionName:         f.collection,
			RetryStrategy:          f.retry,
			DurabilityLevel:        f.durability,
			DurabilityLevelTimeout: f.durable,
			Deadline:               f.deadline,
			TraceContext:           f.trace,
		}, func(res *gocbcore.MutateInResult, err error) {
			if err != nil {
				done(0, err)
				return
			}
			done(res.Cas, nil)
		})
	})
}

// addWhole sends an insert of a document with its flags.
func (d *Driver[T]) addWhole(ctx context.Context, key string, expiry uint32, doc document) (pending, error) {
	return d.send(ctx, key, func(agent *gocbcore.Agent, f frame, done func(gocbcore.Cas, error)) (gocbcore.PendingOp, error) {
		return agent.Add(gocbcore.AddOptions{
			Key:                    f.key,
			Value:                  doc.body,
			Flags:                  doc.flags,
			Expiry:                 expiry,
			ScopeName:              f.scope,
			CollectionName:         f.collection,
			RetryStrategy:          f.retry,
			DurabilityLevel:        f.durability,
			DurabilityLevelTimeout: f.durable,
			Deadline:               f.deadline,
			TraceContext:           f.trace,
		}, stored(done))
	})
}

// replaceWhole sends a replace, with flags, of the document with that cas. Its xattrs stay. Source:
// kv_engine, MutationCommandContext.
func (d *Driver[T]) replaceWhole(ctx context.Context, key string, cas gocb.Cas, expiry uint32, doc document) (pending, error) {
	return d.send(ctx, key, func(agent *gocbcore.Agent, f frame, done func(gocbcore.Cas, error)) (gocbcore.PendingOp, error) {
		return agent.Replace(gocbcore.ReplaceOptions{
			Key:                    f.key,
			Value:                  doc.body,
			Flags:                  doc.flags,
			Cas:                    gocbcore.Cas(cas),
			Expiry:                 expiry,
			ScopeName:              f.scope,
			CollectionName:         f.collection,
			RetryStrategy:          f.retry,
			DurabilityLevel:        f.durability,
			DurabilityLevelTimeout: f.durable,
			Deadline:               f.deadline,
			TraceContext:           f.trace,
		}, stored(done))
	})
}

func stored(done func(gocbcore.Cas, error)) gocbcore.StoreCallback {
	return func(res *gocbcore.StoreResult, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(res.Cas, nil)
	}
}
