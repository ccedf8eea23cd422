package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/hostile"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Harness says how to test a driver.
type Harness struct {
	// Open returns a backend for one case. It is called once a case, inside the
	// bubble if there is one, and may leave its clean-up to t.Cleanup. Records of
	// other cases may still be in the store. The store must not limit how long a
	// record lives, as Couchbase does where a maxTTL is set. Required.
	Open func(t testing.TB) *Backend

	// Bubble runs each case in a bubble of testing/synctest, where time passes only when
	// the case waits. It is for stores within this process: a bubble cannot wait for a
	// network.
	Bubble bool

	// Parallel runs the cases in parallel with each other. Open is then called
	// concurrently. If Wait sets a server's clock, no two cases may share that server.
	Parallel bool

	// Cases chooses cases by their names, such as "scan/all"; the others are logged. It is
	// for one of several configurations of a driver, where another runs them all. Nil:
	// every case.
	Cases func(name string) bool

	// Lacks names the features that neither the driver nor its backend has, each
	// with the reason. Cases that need one are left out, and logged.
	Lacks map[Feature]string
}

// Backend is a driver and functions that act on its store. A field that is nil, unless nil has a
// stated meaning, must be declared in Harness.Lacks. All functions must be safe for concurrent use.
type Backend struct {
	// Driver is the driver under test. Required.
	Driver driver.Driver[Value]

	// Now is the store's own time, by which it deletes. Nil: time.Now.
	Now func() time.Time

	// Wait returns when d more has passed on the store's own clock. A test server
	// sets its clock; that may be at once. Nil: time.Sleep, which is right in a
	// bubble and for a store that runs in real time.
	Wait func(d time.Duration)

	// MaxKey is the longest key in bytes that the driver takes, 64 at least, which
	// the suite's own keys need. Zero: no limit.
	MaxKey int

	// Takes reports whether the store can hold a key of valid text; some stores forbid
	// characters. A key that it cannot hold must be an *InvalidError in every call. Nil: it
	// holds all of them.
	Takes func(key string) bool

	// Plant writes a record as another program would, over any existing one: v in the form that the
	// driver reads, without created_at if life.CreatedAt is zero, without an expiry if
	// life.ExpiresAt is zero, and without anything else that only the driver writes.
	Plant func(ctx context.Context, key string, v Value, life driver.Life) error

	// Malform writes v under key as a record whose life the driver cannot read.
	Malform func(ctx context.Context, key string, v Value) error

	// Mar writes v under key with life, in a form that driver.Mender can correct. Required if the
	// driver is a Mender.
	Mar func(ctx context.Context, key string, v Value, life driver.Life) error

	// Again returns a second driver on the same store with the same options, as in another process.
	// Nil: Driver is used again, which is right for a store in this process.
	Again func() driver.Driver[Value]

	// Retain returns a driver that retains dead records for d, else like Driver and with the same
	// records. If only one driver can use a store, it opens another store.
	Retain func(d time.Duration) driver.Driver[Value]

	// Fail makes every operation fail with an error of the store's own, until mend is called. The
	// store's client should not retry that error for long.
	Fail func() (mend func())

	// Own reports whether errors.As finds Fail's error in err. Required with Fail.
	Own func(err error) bool

	// Hang makes the store answer no operation until release is called.
	Hang func() (release func())

	// Gate is passed by the writes of Driver, and not by those of Again's drivers.
	Gate *Gate

	// Apart sets the store's own clock d ahead of the process's, or behind if d is negative,
	// from now on. Now must return that time. The driver must not be informed.
	Apart func(d time.Duration)

	// Hostile writes a record that no driver writes, by the store's plain client. Its value
	// is one that Driver can read, unless the record gives another. If the store itself
	// cannot hold the record, the error must match errors.ErrUnsupported.
	Hostile func(ctx context.Context, r HostileRecord) error

	// MaxValue is the longest value in bytes that the store can hold. Zero: too long for a test.
	MaxValue int

	// Sweep removes all dead records, as the driver's sweeper does. Nil: the store does that by
	// itself.
	Sweep func(ctx context.Context) error
}

// HostileRecord is a record as other programs may leave it in the store.
type HostileRecord = hostile.Record

// Feature is something that some cases need and not every driver has.
type Feature string

const (
	Plant       Feature = "Plant"       // Backend.Plant
	Fail        Feature = "Fail"        // Backend.Fail and Backend.Own
	Hang        Feature = "Hang"        // Backend.Hang
	Clock       Feature = "Clock"       // the driver is a driver.Clock
	Checker     Feature = "Checker"     // the driver is a driver.Checker
	Local       Feature = "Local"       // the driver is a driver.Local
	ReadToucher Feature = "ReadToucher" // the driver is a driver.ReadToucher
	Copies      Feature = "Copies"      // values share no memory with the caller's
	Malform     Feature = "Malform"     // Backend.Malform
	Scanner     Feature = "Scanner"     // the driver is a driver.Scanner
	RawReader   Feature = "RawReader"   // the driver is a driver.RawReader
	Mender      Feature = "Mender"      // the driver is a driver.Mender, and Backend.Mar
	Retain      Feature = "Retain"      // Backend.Retain
	Gated       Feature = "Gated"       // Backend.Gate, and Backend.Again, whose drivers do not pass it
	Apart       Feature = "Apart"       // Backend.Apart, and Backend.Again, whose drivers have not learned the clock
	Hostile     Feature = "Hostile"     // Backend.Hostile
	Replaced    Feature = "Replaced"    // the driver reports the dead records that it replaces: see driver.Replaced
	Mixed       Feature = "Mixed"       // drivers that retain for different times can share the store
)

// features reports for each feature whether b has it. Copies, Mixed and Replaced are rules and
// not functions: they are assumed unless declared lacking.
var features = map[Feature]func(b *Backend) bool{
	Plant:       func(b *Backend) bool { return b.Plant != nil },
	Malform:     func(b *Backend) bool { return b.Malform != nil },
	Fail:        func(b *Backend) bool { return b.Fail != nil && b.Own != nil },
	Hang:        func(b *Backend) bool { return b.Hang != nil },
	Clock:       has[driver.Clock],
	Checker:     has[driver.Checker],
	Local:       has[driver.Local[Value]],
	ReadToucher: has[driver.ReadToucher[Value]],
	Scanner:     has[driver.Scanner],
	RawReader:   has[driver.RawReader],
	Mender:      func(b *Backend) bool { return has[driver.Mender](b) && b.Mar != nil },
	Copies:      func(*Backend) bool { return true },
	Retain:      func(b *Backend) bool { return b.Retain != nil },
	Gated:       func(b *Backend) bool { return b.Gate != nil && b.Again != nil },
	Apart:       func(b *Backend) bool { return b.Apart != nil && b.Again != nil },
	Hostile:     func(b *Backend) bool { return b.Hostile != nil },
	Replaced:    func(*Backend) bool { return true },
	Mixed:       func(*Backend) bool { return true },
}

func has[C any](b *Backend) bool {
	_, ok := driver.As[C](b.Driver)
	return ok
}

// lacking returns the first of needs that h declares to be lacking.
func (h *Harness) lacking(needs []Feature) (Feature, bool) {
	for _, f := range needs {
		if _, ok := h.Lacks[f]; ok {
			return f, true
		}
	}
	return "", false
}
