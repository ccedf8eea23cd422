package memory

import (
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options configures a Driver. The zero value, like a nil pointer, is an unbounded
// store without a hook, on the system clock.
type Options[T any] struct {
	// MaxEntries bounds the number of records, dead ones that are not yet removed
	// included. At the bound an insert of a new key first makes room from dead
	// records and otherwise fails with driver.ErrFull; a live record is never
	// evicted, for a session must not vanish. Zero means no bound.
	MaxEntries int

	// Retain is how long a record is held after its expiry, for a Store's History and for
	// walks over all records. All other calls use the expiry. A retained record counts for
	// MaxEntries; at the bound it is removed like other dead records, roughly in the order
	// of death. Zero: no retention.
	Retain time.Duration

	// OnExpiry is told of every record that died, once, after it was removed or
	// a write began another life in its place, with the value and life it had.
	// It is not told of a record that Delete, Remove or Close came to first, but see
	// Deletes. Of a life that ended before its expiry, last.ExpiresAt is when: it was
	// deleted, or past its cap when the next one began. Nil means nobody is told.
	//
	// It runs on the driver's own goroutine, one call at a time, with no lock
	// held, and may use the driver, except that Close would wait for itself.
	// While it runs no other record is removed, so long work belongs elsewhere.
	// A panic in it is recovered from, counted, and returned by Close.
	OnExpiry func(key string, last driver.Entry[T], why Reason)

	// Deletes has OnExpiry told, with Deleted, of a record that Delete or Remove takes while
	// it lives. Without OnExpiry it must be false.
	Deletes bool

	// MaxLifetime is the longest lifetime the store's policy gives a record. It
	// is used only to tell OnExpiry why a record ended and has no effect on when;
	// without OnExpiry it must be zero. Zero means that every reason is Idle.
	// Where lifetimes differ by record, leave it zero and judge by last.
	MaxLifetime time.Duration

	// Now is the time of the driver, and of a store over it without a Now of its own. It is
	// for tests that move the time of a whole program. Nil: the system clock at the time of
	// New, and from then on the monotonic clock, which is cheaper.
	//
	// It must be safe for concurrent use: while records are held that expire, the
	// driver's own goroutine calls it every 32 ms too, to see whether it has been
	// moved. Set back, it brings back nothing that was removed; what dies before
	// the latest time it has shown is then removed when it shows that again.
	Now func() time.Time
}

// Reason is why a record expired.
type Reason int

const (
	// Idle: it was not touched in time.
	Idle Reason = iota + 1
	// Cap: its expiry stood at its creation plus Options.MaxLifetime, or later,
	// which no touch could have moved.
	Cap
	// Deleted: somebody deleted it. See Options.Deletes.
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
		return &driver.InvalidError{Field: "Options.Deletes", Value: "true", Rule: "must be false without OnExpiry, which it is for"}
	case o.MaxLifetime > 0 && o.OnExpiry == nil:
		return &driver.InvalidError{
			Field: "Options.MaxLifetime",
			Value: o.MaxLifetime.String(),
			Rule:  "must be zero without OnExpiry: it does not limit a record's life",
		}
	}
	return nil
}

// reason tells why a record with life l ended.
func (o *Options[T]) reason(l driver.Life) Reason {
	if o.MaxLifetime > 0 && l.CreatedAt != 0 && l.ExpiresAt >= l.CreatedAt.Add(o.MaxLifetime) {
		return Cap
	}
	return Idle
}
