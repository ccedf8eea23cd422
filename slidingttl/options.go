package slidingttl

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// TouchMode says whether a read waits for the touch that it has found due.
type TouchMode int

const (
	// Wait makes the read wait for the touch.
	Wait TouchMode = iota

	// Background queues the touch and returns the read at once. While the queue is full, reads
	// wait. A process that dies loses its queued touches: their records keep their expiry.
	Background
)

// Foreign says what to do with a record without created_at, which another program wrote. Delete and
// DeleteEntry remove it whatever this says.
type Foreign int

const (
	// Adopt gives the record a created_at, that of the access whose touch is written, and an expiry. If that touch
	// waits for a Budget, later accesses share it.
	Adopt Foreign = iota

	// ReadOnly reads the record and never writes to it: writes over it return ErrForeign.
	ReadOnly

	// Reject returns ErrForeign for reads and writes.
	Reject
)

// Options adjusts a Store. The zero value, and a nil pointer, mean the defaults.
//
//   - The policy of a record, if records differ: PolicyOf or PolicyFor, not both.
//   - Reads and their touches: Touches, TouchWait, TouchTimeout, Strict, Latest, Foreign.
//   - Bounds: Budget, Queue, Workers, Parallel, Remember, MaxSkew. A store in this process's
//     memory uses only MaxSkew.
//   - Clock, hooks and logging: Now, Observer, Logger, OnTouchError.
type Options[T any] struct {
	// PolicyOf returns the policy of a value. It must be pure and fast: every access calls it,
	// and Keep and Wrap read the record for it. Durations are rounded up to whole milliseconds.
	PolicyOf func(T) Policy

	// PolicyFor returns the policy of a key. No value is read for it, so Keep and Wrap keep their
	// speed. Its results may change: see Store.SetPolicy for the consequences. The store does not see a policy that
	// was tighter for a while and is as before: what another process lowered meanwhile Keep learns with the next read.
	PolicyFor func(key string) Policy

	// Touches says whether a read waits for its touch (Wait, the default) or not (Background).
	Touches TouchMode

	// TouchWait bounds how long a read waits for its touch, which then continues. Zero: 100 ms.
	// Touch, and a Strict store, wait to the end.
	TouchWait time.Duration

	// TouchTimeout bounds one touch, which has a context of its own, and before it the read of a record whose
	// touch has waited. One that gets no answer holds back its key's next one for so long, so it must lie well
	// below the idle grace. While the store fails touches, or as many run as may, one more is tried each eighth of
	// it, or at once after one that was made. A try takes a minute at most, and as long before it for that read,
	// so eight to sixteen run at a time; if the driver ignores that, more do, and the next ones come more rarely,
	// up to 30 s apart. Zero: 5 s.
	TouchTimeout time.Duration

	// Strict makes a read fail when its touch failed; GetMulti returns the value beside the key's error.
	// By default the read returns its value, and OnTouchError gets the failure. Not with Background or a
	// Budget.
	Strict bool

	// Latest avoids stale reads, on a driver whose reads may be stale (driver.Latest). Set it
	// if a deletion must be seen at once, as for sessions.
	Latest bool

	// Foreign says what to do with records without created_at. Default: Adopt.
	Foreign Foreign

	// Budget is how many touches a second this process may make, 0.001 at least. Zero: no
	// bound. Touches above it wait, nearest death first, and later accesses share them. Slack
	// grows to Policy.MaxSlack where that is not enough. Only touches that would come too late go beyond the
	// budget, and those that Touch asks for, which count against it. Too late is when the record dies, or when
	// the first access that found it due has it die, for one to be adopted or whose expiry is to be lowered.
	Budget float64

	// Queue bounds the touches that wait, at most one per key: in Background mode, above
	// the Budget, or because touches are late or fail. Set it to the number of keys in use
	// at a time. When it is full, a read in Background mode without a Budget waits for its touch,
	// unless touches are late or fail, or TouchWait has passed, which is one for all touches of a
	// GetMulti; otherwise the touch whose record is farthest from death is shed. Zero: 65,536.
	Queue int

	// Workers bounds how many touches from the queue run at once. One that hangs keeps its worker for
	// TouchTimeout, so a few that hang can make those of others late. Raise it if Stats.Saturated grows. Zero: 64, and one more for each of them that takes longer than
	// TouchWait. Beyond 8 they begin only while fewer than 256 touches run, those that reads make
	// themselves included. What is tried as TouchTimeout says comes on top: while the store fails
	// touches, or none of the workers has become free for a minute.
	Workers int

	// Parallel bounds the touches of a GetMulti, and writes of an UpsertMulti, at once. Zero: 8.
	Parallel int

	// Remember is how many keys the store remembers with what it last saw of them. Keep and
	// Wrapped.Get of such a key cost no trip while no touch is due, and its Upsert costs one.
	// Set it to the number of keys in use at a time. It is rounded up to a power of two and
	// takes 32 bytes each, and 100 bytes and the key for each key remembered. Of as many keys, 65,536 at least,
	// the store remembers by 64 bytes that it has lowered the expiry. Zero: 8,192.
	Remember int

	// MaxSkew is how far apart the clocks of the processes that share the records may be.
	// A tighter policy brings an expiry down to this much above what it allows. Clocks
	// further apart may shorten lives. Retire moves an expiry this far into the past. Zero: 1 min; 1 s if the driver tells its server's
	// time; the driver's resolution for a store in this process's memory.
	MaxSkew time.Duration

	// Now returns the time. Nil: the driver's clock if it has one, else time.Now. If it
	// runs behind the clock of a store that deletes by itself, records seem to die early.
	Now func() time.Time

	// Observer has functions that are called as the store works. Nil: none. It is copied.
	Observer *Observer

	// Logger gets a line when touches become late, fail or exceed the budget, and when that ends.
	// Nil: nothing is logged.
	Logger *slog.Logger

	// OnTouchError is called once for every touch that failed or was shed. The key is often a
	// secret: do not log it. A record that was gone is no failure. A panic is recovered,
	// counted in Stats and returned by Close.
	OnTouchError func(ctx context.Context, key string, err error)
}

const (
	defaultQueue        = 1 << 16
	defaultParallel     = 8
	defaultRemember     = 1 << 13
	mostRemembered      = 1 << 30
	leastBudget         = 0.001
	defaultTouchWait    = 100 * time.Millisecond
	defaultTouchTimeout = 5 * time.Second
	defaultMaxSkew      = time.Minute
	serverSkew          = time.Second // of two processes that go by a server's time
)

// validate returns o with its defaults filled in.
func (o Options[T]) validate() (Options[T], error) {
	invalid := func(field, value, rule string) (Options[T], error) {
		return o, &InvalidError{Field: "Options." + field, Value: value, Rule: rule}
	}
	switch {
	case o.Touches != Wait && o.Touches != Background:
		return invalid("Touches", fmt.Sprint(int(o.Touches)), "must be Wait or Background")
	case o.Foreign != Adopt && o.Foreign != ReadOnly && o.Foreign != Reject:
		return invalid("Foreign", fmt.Sprint(int(o.Foreign)), "must be Adopt, ReadOnly or Reject")
	case o.Budget != 0 && !(o.Budget >= leastBudget) || math.IsInf(o.Budget, 1):
		return invalid("Budget", fmt.Sprint(o.Budget), "must be at least 0.001 touches a second, or zero for no budget")
	case o.Queue < 0:
		return invalid("Queue", fmt.Sprint(o.Queue), "must not be negative")
	case o.Workers < 0:
		return invalid("Workers", fmt.Sprint(o.Workers), "must not be negative")
	case o.Parallel < 0:
		return invalid("Parallel", fmt.Sprint(o.Parallel), "must not be negative")
	case o.Remember < 0 || o.Remember > mostRemembered:
		return invalid("Remember", fmt.Sprint(o.Remember), "must be from 0 to 1073741824")
	case o.PolicyOf != nil && o.PolicyFor != nil:
		return invalid("PolicyFor", "set", "must be nil where PolicyOf is set")
	case o.TouchWait < 0:
		return invalid("TouchWait", o.TouchWait.String(), "must not be negative")
	case o.MaxSkew < 0:
		return invalid("MaxSkew", o.MaxSkew.String(), "must not be negative")
	case o.TouchTimeout < 0:
		return invalid("TouchTimeout", o.TouchTimeout.String(), "must not be negative")
	case o.Strict && o.Touches == Background:
		return invalid("Strict", "true", "must be false with Touches: Background, where no read waits for its touch")
	case o.Strict && o.Budget > 0:
		return invalid("Strict", "true", "must be false with a Budget, for which touches wait but no read does")
	}
	o.Queue = cmp.Or(o.Queue, defaultQueue)
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.Remember = cmp.Or(o.Remember, defaultRemember)
	o.TouchWait = cmp.Or(o.TouchWait, defaultTouchWait)
	o.TouchTimeout = cmp.Or(o.TouchTimeout, defaultTouchTimeout)
	return o, nil
}
