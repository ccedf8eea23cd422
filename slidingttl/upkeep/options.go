package upkeep

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options says how an operation visits the records. The zero value, and a nil pointer to
// options that embed it, mean the defaults.
type Options struct {
	// PolicyFor returns the policy of a key if tenants differ, in place of the operation's
	// policy. Nil: one policy for all.
	PolicyFor func(key string) slidingttl.Policy

	// Now is the time. Nil: the driver's clock if it has one, else time.Now.
	Now func() time.Time

	// MaxSkew is that of the stores which use the records: an expiry that lies no
	// further beyond the policy is not called so. Zero: a minute.
	MaxSkew time.Duration

	// Segments is how many parts of the store are visited at once. Zero: 4.
	Segments int

	// Page is about how many records are asked for at a time. Zero: 500.
	Page int

	// Limits bounds the pace.
	Limits Limits

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

	// Beside are checkpoints of other Shards of what Resume is of, whose records count too.
	Beside []Checkpoint

	// Shards, if not zero, parts the store for so many processes, once for all of them:
	// Save is handed a checkpoint for each to resume from, and no record is looked at.
	// Where the store cannot be parted so finely: an *InvalidError that says how finely.
	Shards int

	// Failed is called for each record that could not be read or written, one call at a
	// time. The key may be a secret. Nil: the report counts them by reason.
	Failed func(key string, err error)

	// MaxFailed is the share of the records that may fail before the operation ends,
	// with ErrTooMany and a checkpoint. It ends too where 32 fail one after the other
	// and no write lands. Zero: 0.001, and no less than 100. One: it goes on.
	MaxFailed float64
}

// Limits bounds the pace of one operation, all its segments together. Zero: no limit.
type Limits struct {
	Records   float64 // looked at in a second
	Writes    float64 // tried in a second
	Cost      float64 // of the store's unit spent in a second, as it reports it page by page
	WriteCost float64 // what one write is taken to cost in that unit; zero: 1
}

// Progress is how far an operation has come.
type Progress struct {
	Records  int64         // looked at
	Passed   int64         // things met that are no records
	Failed   int64         // records that could not be read or written
	Writes   int64         // tried; in a dry run, those that would be
	Cost     float64       // in the store's unit, of the scan
	Segments int           // in all
	Done     int           // segments that were gone through
	Elapsed  time.Duration // of this run
}

// WriteOptions says how an operation that writes visits the records.
type WriteOptions struct {
	Options

	// Apply writes. Without it nothing is written, and the report says what would be.
	Apply bool

	// Writers bounds the concurrent writes. Zero: 16.
	Writers int

	// Unit is the bytes of one of the store's write units, for reports. Zero: 1024.
	Unit int
}

const saveEvery = time.Second

func invalid(field, value, rule string) error {
	return &driver.InvalidError{Field: field, Value: value, Rule: rule}
}

// checked returns what opts points to, the zero options where it is nil, with what zero
// means in its place; or what is wrong with it.
func checked[T any, P interface {
	*T
	validate() error
}](opts P) (o T, err error) {
	if opts != nil {
		o = *opts
	}
	return o, P(&o).validate()
}

// atLeastZero sets *n to what zero means, or says that it is less.
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
		atLeastZero("Options.Page", &o.Page, 500),
		atLeastZero("Options.MaxSkew", &o.MaxSkew, time.Minute),
		atLeastZero("Options.Limits.Records", &o.Limits.Records, 0),
		atLeastZero("Options.Limits.Writes", &o.Limits.Writes, 0),
		atLeastZero("Options.Limits.Cost", &o.Limits.Cost, 0),
		atLeastZero("Options.Limits.WriteCost", &o.Limits.WriteCost, 1),
		atLeastZero("Options.MaxFailed", &o.MaxFailed, 0.001),
	)
}

func (o *WriteOptions) validate() error {
	return cmp.Or(
		o.Options.validate(),
		atLeastZero("WriteOptions.Writers", &o.Writers, 16),
		atLeastZero("WriteOptions.Unit", &o.Unit, 1024),
	)
}

// clockOf is the time by which records of s are judged.
func (o *Options) clockOf(s driver.Scanner) func() driver.Instant {
	now := o.Now
	if now == nil {
		now = time.Now
		if c, ok := driver.As[driver.Clock](s); ok {
			now = c.Now
		}
	}
	return func() driver.Instant { return driver.Floor(now()) }
}
