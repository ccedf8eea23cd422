package upkeep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options says how an operation visits the records. The zero value, and a nil pointer to
// options that embed it, mean the defaults.
type Options struct {
	// PolicyFor returns the policy of a key if tenants differ, in place of the operation's
	// policy. Nil: one policy for all.
	PolicyFor func(key string) slidingttl.Policy

	// Prefix is the beginning of the keys to visit. Other records count as Passed. Harvest, whose
	// caller keeps one position for all keys, refuses it. Empty: all keys.
	Prefix string

	// Now is the time. Nil: the driver's clock if it has one, else time.Now.
	Now func() time.Time

	// MaxSkew is the MaxSkew of the Stores that use the records. An expiry beyond the policy
	// by no more than this is not reported as Beyond. Zero: a minute.
	MaxSkew time.Duration

	// Segments is how many parts of the store are visited at once. Zero: 4.
	Segments int

	// Page is about how many records are asked for at a time. Zero: those that Limits.Records lets be
	// read in a twentieth of a second, from 20 to 500.
	Page int

	// Limits bounds the pace.
	Limits Limits

	// Steer returns the limits of now in place of Limits, and whether the operation pauses. A limit that
	// is no finite number of at least zero pauses it too. It is called often and concurrently: it must be
	// quick. Nil: Limits hold, and there is no pause.
	Steer func() (limits Limits, paused bool)

	// Progress is called after every page, one call at a time. It must be quick.
	Progress func(Progress)

	// Save gets a checkpoint to keep, at most every second, and at the end, one call at a
	// time. Its error ends the operation.
	Save func(Checkpoint) error

	// Store names the store and how its records are read. A checkpoint is valid only for
	// that name. Empty: a checkpoint does not tell stores apart.
	Store string

	// Resume continues from a checkpoint of the same operation over the same Store, policy
	// and options; any other is an *InvalidError. Nil: from the beginning.
	Resume *Checkpoint

	// Beside has the checkpoints of the other Shards of the same operation. Their results
	// are added to the report.
	Beside []Checkpoint

	// Shards, if not zero, only splits the store for so many processes: Save gets a
	// checkpoint for each to resume from, and no record is read. Split a store once for all
	// processes. If it cannot be split into so many, the *InvalidError gives the maximum.
	Shards int

	// Failed is called for each record that could not be read or written, one call at a
	// time. The key may be a secret. Nil: the report counts them by reason.
	Failed func(key string, err error)

	// MaxFailed is the share of the records that may fail before the operation ends,
	// with ErrTooMany and a checkpoint. It also ends if 32 in a row fail and no write
	// succeeds. Zero: 0.001. 100 records may fail in any case. One: no bound.
	MaxFailed float64
}

// Limits bounds the pace of one operation, all its segments together. Zero: no limit.
type Limits struct {
	Records float64 // records read a second
	Writes  float64 // writes attempted a second
	Cost    float64 // cost a second, in the store's unit, as it reports it for each page; a write counts as one
}

// Progress is the progress of an operation.
type Progress struct {
	Records  int64         // records read
	Passed   int64         // items found that are no records
	Failed   int64         // records that could not be read or written
	Writes   int64         // attempted; in a dry run, those that it would attempt
	Cost     float64       // of the scan, in the store's unit
	Segments int           // in total
	Done     int           // segments done
	Elapsed  time.Duration // since this run began
}

// WriteOptions says how an operation that writes visits the records.
type WriteOptions struct {
	Options

	// Apply writes. Without it the report says what the operation would write.
	Apply bool

	// Keys are the keys that Adopt, Mend, Retire and Erase look up one by one, in place of a scan, such as
	// those that were reported to Failed. It excludes Prefix. Nil: all keys.
	Keys []string

	// Kinds are the kinds of record that Adopt, Mend, Reap and Retire write besides plain ones: the "session"
	// and the "index" of middleware/session. Others are left alone, and counted: by the operation's one
	// policy they would end too early.
	Kinds []string

	// Follow makes Adopt, Mend, Reap, Retire and Undo follow the store's load: they make 20 writes a
	// second for a minute, then more while a write takes little longer than in that minute, and fewer
	// when it does. Limits.Writes is then a ceiling.
	Follow bool

	// Writers bounds the concurrent writes. Zero: 16.
	Writers int
}

const saveEvery = time.Second

func invalid(field, value, rule string) error {
	return &driver.InvalidError{Field: field, Value: value, Rule: rule}
}

// checked validates opts, which may be nil, and returns a copy with zeros replaced by defaults.
func checked[T any, P interface {
	*T
	validate() error
}](opts P) (o T, err error) {
	if opts != nil {
		o = *opts
	}
	return o, P(&o).validate()
}

// atLeastZero replaces a zero *n by its default, and returns an error for a negative one.
func atLeastZero[N int | float64 | time.Duration](field string, n *N, zero N) error {
	if !(*n >= 0) || math.IsInf(float64(*n), 0) {
		return invalid(field, fmt.Sprint(*n), "must not be negative")
	}
	*n = cmp.Or(*n, zero)
	return nil
}

func (o *Options) validate() error {
	if o.Shards > 0 && o.Resume != nil {
		return invalid("Options.Shards", fmt.Sprint(o.Shards), "must be zero with Resume")
	}
	return cmp.Or(
		atLeastZero("Options.Segments", &o.Segments, 4),
		atLeastZero("Options.Shards", &o.Shards, 0),
		atLeastZero("Options.Page", &o.Page, 0),
		atLeastZero("Options.MaxSkew", &o.MaxSkew, time.Minute),
		atLeastZero("Options.Limits.Records", &o.Limits.Records, 0),
		atLeastZero("Options.Limits.Writes", &o.Limits.Writes, 0),
		atLeastZero("Options.Limits.Cost", &o.Limits.Cost, 0),
		atLeastZero("Options.MaxFailed", &o.MaxFailed, 0.001),
	)
}

func (o *WriteOptions) validate() error {
	if o.Keys = slices.Compact(slices.Sorted(slices.Values(o.Keys))); len(o.Keys) > 0 && o.Prefix != "" {
		return invalid("WriteOptions.Keys", fmt.Sprint(len(o.Keys), " keys"), "must be none with Options.Prefix")
	}
	for _, k := range o.Kinds {
		if k != verdict.Session && k != verdict.Index {
			return invalid("WriteOptions.Kinds", strconv.Quote(k), "must be session or index")
		}
	}
	return cmp.Or(
		o.Options.validate(),
		atLeastZero("WriteOptions.Writers", &o.Writers, atOnce),
	)
}

// named returns an error unless o has Keys or a Prefix.
func (o *WriteOptions) named(options string) error {
	if len(o.Keys) == 0 && o.Prefix == "" {
		return invalid(options, "neither Keys nor Prefix", "must have one of them")
	}
	return nil
}

// about returns Checkpoint.About: the policy and the options that a resumed run must share.
func about(j *verdict.Judge, more string) string { return "policy " + j.Policies() + more }
