package cosmostest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Fault is something that goes wrong with an operation. Exactly one of Status, Drop and
// Silence says what.
type Fault struct {
	// Ops are the operations it can strike. Empty: all.
	Ops []Op

	// Count is how many operations it strikes before it is spent. Zero: 1.
	Count int

	// Status is answered instead of the operation's own, with SubStatus if that is
	// not zero, and for 429 with RetryAfter.
	Status, SubStatus int
	RetryAfter        time.Duration

	// Drop closes the connection instead of answering, or over HTTP/2 resets the request's
	// stream.
	Drop bool

	// Code is the error code of that reset. With 1, PROTOCOL_ERROR, and 7, REFUSED_STREAM,
	// net/http itself sends any request again. Zero: 2, INTERNAL_ERROR.
	Code byte

	// Silence keeps the connection open and does nothing with it from then on: neither
	// answers nor requests pass, nor the replies to a client's pings.
	Silence bool

	// Applied carries the operation out before things go wrong: the client cannot know
	// whether it was. Otherwise it is not carried out.
	Applied bool

	// Then is called before things go wrong: what others do before the client can send
	// again. Nil: nothing.
	Then func()
}

// Inject arms a fault. Faults strike in the order in which they were armed, one at a time.
// A fault that breaks a rule is an error.
func (a *Account) Inject(f Fault) error {
	if f.Drop && f.Silence || (f.Status != 0) == (f.Drop || f.Silence) {
		return fmt.Errorf("cosmostest: a fault needs one of Status, Drop and Silence, and has Status %d, Drop %t, Silence %t", f.Status, f.Drop, f.Silence)
	}
	if f.Count < 0 {
		return fmt.Errorf("cosmostest: a fault's Count is %d: must not be negative", f.Count)
	}
	f.Ops, f.Count = slices.Clone(f.Ops), max(f.Count, 1)
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.armed = append(a.faults.armed, f)
	return nil
}

// ClearFaults disarms all faults, and returns how many operations they would still have
// hit.
func (a *Account) ClearFaults() (left int) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	for _, f := range a.faults.armed {
		left += f.Count
	}
	a.faults.armed = nil
	return left
}

// SetLatency holds back every answer by d of real time, after the operation was carried
// out. Zero ends it.
func (a *Account) SetLatency(d time.Duration) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.latency = max(d, 0)
}

// SetThroughput limits what may be charged in a second of real time. A request that comes
// when it is used up is answered with 429, and when to come again. Zero ends it.
func (a *Account) SetThroughput(unitsPerSecond float64) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.provisioned, a.faults.left = unitsPerSecond, unitsPerSecond
	a.faults.filled = time.Now()
}

// Hang makes the account stop until release is called or the account is closed. It accepts
// connections and requests and carries out nothing. After release it carries out the
// requests that came in meanwhile. Calling release again does nothing.
func (a *Account) Hang() (release func()) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	if a.faults.hanging == nil {
		a.faults.hanging = make(chan struct{})
	}
	return a.faults.release
}

// faults is what an account is told to get wrong.
type faults struct {
	mu          sync.Mutex // guards the rest
	armed       []Fault
	latency     time.Duration
	hanging     chan struct{} // closed to release; nil: it does not
	provisioned float64       // units a second; zero: no limit
	left        float64       // of this second
	filled      time.Time
}

func (f *faults) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hanging != nil {
		close(f.hanging)
		f.hanging = nil
	}
}

// wait returns when the account does not hang.
func (f *faults) wait() {
	f.mu.Lock()
	hanging := f.hanging
	f.mu.Unlock()
	if hanging != nil {
		<-hanging
	}
}

// strike returns the fault that op meets, if any.
func (f *faults) strike(op Op) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.armed {
		if len(fault.Ops) > 0 && !slices.Contains(fault.Ops, op) {
			continue
		}
		if f.armed[i].Count--; f.armed[i].Count == 0 {
			f.armed = slices.Delete(f.armed, i, i+1)
		}
		return fault, true
	}
	return Fault{}, false
}

// throttled returns how long a request has to wait, zero if it need not.
func (f *faults) throttled() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.provisioned == 0 {
		return 0
	}
	now := time.Now()
	if since := now.Sub(f.filled); since >= time.Second {
		// What one second went over is taken off the next ones.
		f.left = min(f.provisioned, f.left+f.provisioned*since.Truncate(time.Second).Seconds())
		f.filled = f.filled.Add(since.Truncate(time.Second))
	}
	if f.left > 0 {
		return 0
	}
	return max(time.Millisecond, f.filled.Add(time.Second).Sub(now))
}

// spend takes what a request was charged off the second's throughput.
func (f *faults) spend(units float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left -= units
}

func (f *faults) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latency
}
