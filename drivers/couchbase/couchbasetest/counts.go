package couchbasetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/couchbase/gocbcore/v10/memd"
)

// Op is an operation on documents, by its code in the protocol.
type Op = memd.CmdCode

// The operations, by the names that gocb's methods have.
const (
	OpGet         Op = memd.CmdGet
	OpGetAndTouch Op = memd.CmdGAT
	OpGetAndLock  Op = memd.CmdGetLocked
	OpUnlock      Op = memd.CmdUnlockKey
	OpTouch       Op = memd.CmdTouch
	OpExists      Op = memd.CmdGetMeta
	OpUpsert      Op = memd.CmdSet
	OpInsert      Op = memd.CmdAdd
	OpReplace     Op = memd.CmdReplace
	OpRemove      Op = memd.CmdDelete
	OpLookupIn    Op = memd.CmdSubDocMultiLookup
	OpMutateIn    Op = memd.CmdSubDocMultiMutation

	// A range scan is created, continued until it is complete, or cancelled.
	OpScanCreate   Op = memd.CmdRangeScanCreate
	OpScanContinue Op = memd.CmdRangeScanContinue
	OpScanCancel   Op = memd.CmdRangeScanCancel
)

// Counts are the operations that a node has received, by kind. Mutations counts those that
// changed a document. It is comparable, so a test can state in one line what it expects:
//
//	before := node.Counts()
//	… one read whose touch is not due …
//	if got, want := node.Counts().Since(before), (couchbasetest.Counts{LookupIn: 1}); got != want {
//
// Each request counts once, even if it fails, is hit by a [Fault], or is resent by
// gocb itself. Logins, cluster configs and similar requests do not count.
type Counts struct {
	Get, GetAndTouch, GetAndLock, Unlock, Touch, Exists uint64
	Upsert, Insert, Replace, Remove                     uint64
	LookupIn, MutateIn                                  uint64

	// Mutations is how many operations changed a document: what a cluster
	// writes to disk, to replicas and to other data centres. A touch or
	// get-and-touch with an unchanged expiry is none. Documents that expire are
	// not counted.
	Mutations uint64
}

// Since returns c minus before.
func (c Counts) Since(before Counts) Counts {
	return Counts{
		Get:         c.Get - before.Get,
		GetAndTouch: c.GetAndTouch - before.GetAndTouch,
		GetAndLock:  c.GetAndLock - before.GetAndLock,
		Unlock:      c.Unlock - before.Unlock,
		Touch:       c.Touch - before.Touch,
		Exists:      c.Exists - before.Exists,
		Upsert:      c.Upsert - before.Upsert,
		Insert:      c.Insert - before.Insert,
		Replace:     c.Replace - before.Replace,
		Remove:      c.Remove - before.Remove,
		LookupIn:    c.LookupIn - before.LookupIn,
		MutateIn:    c.MutateIn - before.MutateIn,
		Mutations:   c.Mutations - before.Mutations,
	}
}

// Counts returns the operations that the node has received since it started.
func (n *Node) Counts() Counts {
	c := &n.counts
	return Counts{
		Get:         c.ops[OpGet].Load(),
		GetAndTouch: c.ops[OpGetAndTouch].Load(),
		GetAndLock:  c.ops[OpGetAndLock].Load(),
		Unlock:      c.ops[OpUnlock].Load(),
		Touch:       c.ops[OpTouch].Load(),
		Exists:      c.ops[OpExists].Load(),
		Upsert:      c.ops[OpUpsert].Load(),
		Insert:      c.ops[OpInsert].Load(),
		Replace:     c.ops[OpReplace].Load(),
		Remove:      c.ops[OpRemove].Load(),
		LookupIn:    c.ops[OpLookupIn].Load(),
		MutateIn:    c.ops[OpMutateIn].Load(),
		Mutations:   c.mutations.Load(),
	}
}

// Await returns nil as soon as reached returns true for the counts. It is for a test that
// acts in the middle of other calls. An operation is counted before it is carried out, and
// after a [Fault] that hits it is used up. If ctx ends first Await returns its error.
func (n *Node) Await(ctx context.Context, reached func(Counts) bool) error {
	c := &n.counts
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	for {
		news := c.next()
		if reached(n.Counts()) {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type counters struct {
	ops       [256]atomic.Uint64
	mutations atomic.Uint64
	waiting   atomic.Int64 // calls of Await

	mu   sync.Mutex    // guards news
	news chan struct{} // closed when something is counted; nil: no call waits
}

func (c *counters) op(code memd.CmdCode) { c.count(&c.ops[code]) }

func (c *counters) mutation() { c.count(&c.mutations) }

func (c *counters) count(n *atomic.Uint64) {
	if n.Add(1); c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// next returns a channel that is closed when something more is counted.
func (c *counters) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.news == nil {
		c.news = make(chan struct{})
	}
	return c.news
}
