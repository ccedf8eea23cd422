package memory

import (
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options configures a Driver. The zero value, and a nil pointer, mean an unbounded
// store without a hook, on the system clock.
type Options[T any] struct {
	// MaxEntries bounds the number of records, including dead ones that are not removed
	// yet. At the bound an insert of a new key removes dead records, and fails with
	// driver.ErrFull if there are none. A live record is never evicted, since a session must
	// not vanish. Zero: no bound.
	MaxEntries int

	// Retain is how long a record is held after its expiry, for a Store's History and for
	// walks over all records. All other calls use the expiry. A retained record counts for
	// MaxEntries; at the bound it is removed like other dead records, roughly in the order
	// of death. Zero: no retention.
	Retain time.Duration

	// OnExpiry is called once for every record that died, with the value and life it had,
	// after the record was removed or a write began another life under its key. It is not
	// called for a record that Delete, Remove or Close removed first, but see Deletes. If a
	// life ended before its expiry, last.ExpiresAt is the time of its end: it was deleted, or
	// past its cap when the next life began. Nil: no hook.
	//
	// It runs on the driver's own goroutine, one call at a time, with no lock held. It may
	// use the driver, but must not call Close, which waits for the call that runs and makes
	// none after it: not for those either whose turn had not come. The driver sweeps nothing while it
	// runs, and what writes remove meanwhile waits for its turn in memory, beside MaxEntries,
	// so hand long work to another goroutine. A panic in it is recovered, counted, and returned by Close.
	OnExpiry func(key string, last driver.Entry[T], why Reason)

	// Deletes calls OnExpiry, with the reason Deleted, for a live record that Delete or
	// Remove removes. Without OnExpiry it must be false.
	Deletes bool

	// MaxLifetime is the longest lifetime the store's policy gives a record. It decides only
	// which Reason OnExpiry gets, not when records expire; without OnExpiry it must be zero.
	// Zero: every reason is Idle. If lifetimes differ by record, leave it zero and derive the
	// reason from last.
	MaxLifetime time.Duration

	// Now is the time of the driver, and of a store over it without a Now of its own. It is
	// for tests that move the time of a whole program. Nil: the system clock at the time of
	// New, and from then on the monotonic clock, which is cheaper.
	//
	// It must be safe for concurrent use: while the driver holds records that expire, its own
	// goroutine calls it every 32 ms. If Now is set back, removed records stay removed, and
	// records that die before the latest time that Now returned are removed when it returns
	// that time again.
	Now func() time.Time
}

// Reason is why a record expired.
type Reason int

const (
	// Idle: it was not touched in time.
	Idle Reason = iota + 1
	// Cap: its expiry was its creation plus Options.MaxLifetime, or later. No touch could
	// have moved it.
	Cap
	// Deleted: it was deleted. See Options.Deletes.
	Deleted
)

// String returns "idle", "cap" or "deleted".
func (r Reason) String() string {
	switch r {
	case Idle:
		return "idle"
	case Cap:
		return "cap"
	case Deleted:
		return "deleted"
	}
	return "Reason(" + strconv.Itoa(int(r)) + ")"
}

func (o *Options[T]) validate() error {
	switch {
	case o.MaxEntries < 0:
		return &driver.InvalidError{
			Field: "Options.MaxEntries",
			Value: strconv.Itoa(o.MaxEntries),
			Rule:  "must not be negative",
		}
	case o.Retain < 0:
		return &driver.InvalidError{
			Field: "Options.Retain",
			Value: o.Retain.String(),
			Rule:  "must not be negative",
		}
	case o.MaxLifetime < 0:
		return &driver.InvalidError{
			Field: "Options.MaxLifetime",
			Value: o.MaxLifetime.String(),
			Rule:  "must not be negative",
		}
	case o.Deletes && o.OnExpiry == nil:
		return &driver.InvalidError{Field: "Options.Deletes", Value: "true", Rule: "must be false without OnExpiry, which it applies to"}
	case o.MaxLifetime > 0 && o.OnExpiry == nil:
		return &driver.InvalidError{
			Field: "Options.MaxLifetime",
			Value: o.MaxLifetime.String(),
			Rule:  "must be zero without OnExpiry: it does not limit a record's life",
		}
	}
	return nil
}

// reason returns why a record with life l ended.
func (o *Options[T]) reason(l driver.Life) Reason {
	if o.MaxLifetime > 0 && l.CreatedAt != 0 && l.ExpiresAt >= l.CreatedAt.Add(o.MaxLifetime) {
		return Cap
	}
	return Idle
}
