package cosmostest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Fault makes an operation fail, in the way that exactly one of Status, Drop and Silence sets.
type Fault struct {
	// Ops are the operations it can hit. Empty: all.
	Ops []Op

	// Count is how many operations it hits. Zero: 1.
	Count int

	// Status is the answer's status, with SubStatus if that is not zero, and for 429 with
	// RetryAfter.
	Status, SubStatus int
	RetryAfter        time.Duration

	// Drop closes the connection instead of answering, or over HTTP/2 resets the request's
	// stream.
	Drop bool

	// Code is the error code of that reset. With 1, PROTOCOL_ERROR, and 7, REFUSED_STREAM,
	// net/http itself sends any request again. Zero: 2, INTERNAL_ERROR.
	Code byte

	// Silence keeps the connection open, but from then on neither requests, answers nor
	// replies to pings pass.
	Silence bool

	// Applied executes the operation before the fault, and the client cannot know that. False:
	// the operation is not executed.
	Applied bool

	// Then is called before the fault, such as another client's write before a resend. Nil:
	// nothing.
	Then func()
}

// Inject arms a fault. Faults hit in the order in which they were armed, one at a time.
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

// SetLatency delays every answer by d of real time, after the operation was executed. Zero
// ends it.
func (a *Account) SetLatency(d time.Duration) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.latency = max(d, 0)
}

// SetThroughput limits the request units in a second of real time. Beyond it a request is
// answered with 429 and the time to wait. Zero ends it.
func (a *Account) SetThroughput(unitsPerSecond float64) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.provisioned, a.faults.left = unitsPerSecond, unitsPerSecond
	a.faults.filled = time.Now()
}

// Hang makes the account stop until release is called or the account is closed. It accepts
// connections and requests, and executes them only after release. Calling release again does
// nothing.
func (a *Account) Hang() (release func()) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	if a.faults.hanging == nil {
		a.faults.hanging = make(chan struct{})
	}
	return a.faults.release
}

// faults holds the faults that an account is to cause.
type faults struct {
	mu          sync.Mutex // guards the rest
	armed       []Fault
	latency     time.Duration
	hanging     chan struct{} // closed to release; nil: it does not hang
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

// wait waits while the account hangs.
func (f *faults) wait() {
	f.mu.Lock()
	hanging := f.hanging
	f.mu.Unlock()
	if hanging != nil {
		<-hanging
	}
}

// strike returns the fault that hits op, if any.
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

// throttled returns how long a request has to wait; zero: it can go on.
func (f *faults) throttled() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.provisioned == 0 {
		return 0
	}
	now := time.Now()
	if since := now.Sub(f.filled); since >= time.Second {
		// What exceeds one second's limit is taken from the next ones.
		f.left = min(f.provisioned, f.left+f.provisioned*since.Truncate(time.Second).Seconds())
		f.filled = f.filled.Add(since.Truncate(time.Second))
	}
	if f.left > 0 {
		return 0
	}
	return max(time.Millisecond, f.filled.Add(time.Second).Sub(now))
}

// spend subtracts a request's charge from the second's throughput.
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
