package couchbasetest

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
)

// Fault makes an operation fail, in the way that exactly one of Status, Drop and
// Silent sets.
type Fault struct {
	// Ops are the operations it can hit. Empty means every operation on
	// documents.
	Ops []Op
	// Count is how many operations it hits. Zero means 1.
	Count int

	// Status is the answer's status, such as memd.StatusTmpFail, memd.StatusBusy,
	// memd.StatusLocked or memd.StatusSyncWriteInProgress. gocb itself retries some
	// of them, with a new request that may be hit again.
	Status memd.StatusCode
	// Drop closes the connection instead of answering.
	Drop bool
	// Silent never answers, so that the client runs into its timeout.
	Silent bool

	// Applied executes the operation before the fault, and the client cannot know
	// that. False: the operation is not executed.
	Applied bool
}

// Inject arms a fault. Faults hit in the order in which they were armed, one at a
// time. Its error wraps [ErrInvalid].
func (n *Node) Inject(f Fault) error {
	var kinds int
	for _, set := range []bool{f.Status != memd.StatusSuccess, f.Drop, f.Silent} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("couchbasetest: fault: %w: needs exactly one of Status, Drop and Silent, has %d", ErrInvalid, kinds)
	case f.Count < 0:
		return fmt.Errorf("couchbasetest: fault: %w: Count %d is negative", ErrInvalid, f.Count)
	}
	for _, op := range f.Ops {
		if h := handlers[op]; h == nil || !h.data {
			return fmt.Errorf("couchbasetest: fault: %w: %s is no operation on documents", ErrInvalid, op.Name())
		}
	}
	f.Ops = slices.Clone(f.Ops)
	f.Count = max(f.Count, 1)
	n.faults.arm(f)
	return nil
}

// Between calls f in place of each operation on documents, until Between is called with
// nil. deliver executes the operation, and may be called once. Only Drop and Silent of the
// returned Fault count: without them the client gets the operation's own answer when f has
// returned. The connection's other requests wait meanwhile.
func (n *Node) Between(f func(op Op, deliver func()) Fault) {
	if f == nil {
		n.faults.between.Store(nil)
		return
	}
	n.faults.between.Store(&f)
}

// ClearFaults disarms all faults, and returns how many operations they would still have
// hit. Zero says that the test met all faults that it had armed.
func (n *Node) ClearFaults() int { return n.faults.clear() }

// SetLatency delays every answer by d of real time. The operation itself is executed
// at once, and others meanwhile. Zero ends it.
func (n *Node) SetLatency(d time.Duration) { n.latency.Store(int64(max(d, 0))) }

// Hold delays every answer until release is called. It is for a test that counts how many
// answers a call waits for, one after the other. The operations themselves are executed and
// counted at once, see [Node.Await]. A second Hold delays the answers to operations counted
// after it. Called before the first is released, it lets only the answers of the first round
// pass. Calling release again does nothing.
func (n *Node) Hold() (release func()) {
	g := newGate()
	n.faults.holding.Store(g)
	return func() { n.faults.holding.open(g) }
}

// Hang makes the node stop until resume is called or the node is closed. The node accepts
// connections and requests, but executes and answers none, not even a login. After resume it
// executes the requests that came in meanwhile, even if the client no longer waits for them.
// The management service continues. Calling resume again does nothing.
func (n *Node) Hang() (resume func()) { return n.faults.hang() }

// faults holds the faults that a node is to cause.
type faults struct {
	armed   atomic.Bool // whether list has any
	between atomic.Pointer[func(op Op, deliver func()) Fault]
	hanging gates
	holding gates

	// mu guards list.
	mu   sync.Mutex
	list []Fault
}

type gate struct {
	opened chan struct{}
	once   sync.Once
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

// gates holds the current gate, nil if there is none.
type gates struct{ atomic.Pointer[gate] }

// open opens g, even if it is no longer the current gate.
func (s *gates) open(g *gate) {
	g.once.Do(func() {
		s.CompareAndSwap(g, nil)
		close(g.opened)
	})
}

// closedByRelease is closed when the current gate is opened; nil: there is none.
func (s *gates) closedByRelease() <-chan struct{} {
	if g := s.Load(); g != nil {
		return g.opened
	}
	return nil
}

func (f *faults) arm(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fault)
	f.armed.Store(true)
}

func (f *faults) clear() (left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.list {
		left += fault.Count
	}
	f.list = nil
	f.armed.Store(false)
	return left
}

// strike returns the fault that hits op, if any.
func (f *faults) strike(op memd.CmdCode) (Fault, bool) {
	if !f.armed.Load() {
		return Fault{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		fault := f.list[i]
		if len(fault.Ops) > 0 && !slices.Contains(fault.Ops, op) {
			continue
		}
		if f.list[i].Count--; f.list[i].Count == 0 {
			f.list = slices.Delete(f.list, i, i+1)
			f.armed.Store(len(f.list) > 0)
		}
		return fault, true
	}
	return Fault{}, false
}

func (f *faults) hang() (resume func()) {
	g := newGate()
	if !f.hanging.CompareAndSwap(nil, g) {
		g = f.hanging.Load() // hangs already: the same gate opens for both
		if g == nil {
			return f.hang()
		}
	}
	return func() { f.hanging.open(g) }
}

func (f *faults) waitWhileHanging(closed <-chan struct{}) error {
	opened := f.hanging.closedByRelease()
	if opened == nil {
		return nil
	}
	select {
	case <-opened:
		return nil
	case <-closed:
		return net.ErrClosed
	}
}
