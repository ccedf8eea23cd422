package cosmostest

import "sync"

// Op is an operation on items or their container.
type Op string

// The operations.
const (
	OpRead          Op = "read"
	OpCreate        Op = "create"
	OpUpsert        Op = "upsert"
	OpReplace       Op = "replace"
	OpPatch         Op = "patch"
	OpDelete        Op = "delete"
	OpQuery         Op = "query" // a page of a query; ReadManyItems sends queries
	OpReadContainer Op = "read container"
	OpReadRanges    Op = "read partition key ranges"
)

// Counts are the requests that an account has received, by operation. Each request counts once,
// even if it fails, is hit by a [Fault], or is resent by the client itself. Requests that create
// and delete databases and containers, and clients' reads of the account, are not counted. It is
// comparable.
type Counts struct {
	Read, Create, Upsert, Replace, Patch, Delete, Query uint64
	ReadContainer, ReadRanges                           uint64

	ReadRegion uint64 // of all these, those that came to ReadRegion
}

// of returns the counter of an operation.
func (c *Counts) of(op Op) *uint64 {
	switch op {
	case OpRead:
		return &c.Read
	case OpCreate:
		return &c.Create
	case OpUpsert:
		return &c.Upsert
	case OpReplace:
		return &c.Replace
	case OpPatch:
		return &c.Patch
	case OpDelete:
		return &c.Delete
	case OpQuery:
		return &c.Query
	case OpReadContainer:
		return &c.ReadContainer
	case OpReadRanges:
		return &c.ReadRanges
	}
	return nil
}

var allOps = []Op{OpRead, OpCreate, OpUpsert, OpReplace, OpPatch, OpDelete, OpQuery, OpReadContainer, OpReadRanges}

// Since returns c minus before.
func (c Counts) Since(before Counts) Counts {
	for _, op := range allOps {
		*c.of(op) -= *before.of(op)
	}
	c.ReadRegion -= before.ReadRegion
	return c
}

// tally holds an account's counters.
type tally struct {
	mu     sync.Mutex // guards the rest
	counts Counts
	charge float64
	most   map[Op]int // bytes of the longest body
}

func (t *tally) count(op Op, body int, second bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if second {
		t.counts.ReadRegion++
	}
	if n := t.counts.of(op); n != nil {
		*n++
	}
	if t.most == nil {
		t.most = make(map[Op]int)
	}
	t.most[op] = max(t.most[op], body)
}

func (t *tally) charged(units float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charge += units
}

// Counts returns the requests that the account has received since it started.
func (a *Account) Counts() Counts {
	a.counts.mu.Lock()
	defer a.counts.mu.Unlock()
	return a.counts.counts
}

// Charge returns the request units that the account has charged since it started.
func (a *Account) Charge() float64 {
	a.counts.mu.Lock()
	defer a.counts.mu.Unlock()
	return a.counts.charge
}

// LongestBody returns the length of the longest body of a request for op, in bytes.
func (a *Account) LongestBody(op Op) int {
	a.counts.mu.Lock()
	defer a.counts.mu.Unlock()
	return a.counts.most[op]
}
