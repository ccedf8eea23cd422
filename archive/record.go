package archive

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Reason is a record's cause of death.
type Reason string

// The reasons.
const (
	Idle    Reason = "idle"    // it was not touched for the idle grace
	Age     Reason = "age"     // it reached its cap
	Deleted Reason = "deleted" // it was deleted
	Unknown Reason = "unknown" // the source cannot tell
)

// Record is a life that has ended.
type Record struct {
	Key string

	// Generation tells the lives of one key apart. A source must use the same one each time
	// it hands the record over. Empty: CreatedAt in Unix milliseconds or, if that is zero,
	// the negative of ExpiredAt.
	Generation string

	CreatedAt driver.Instant // zero: the record had none

	// ExpiredAt is the time of death: the expiry, the cap, or the deletion. It must be after
	// 1970-01-01, and the same each time the source hands the record over.
	ExpiredAt driver.Instant

	Reason Reason // empty: Unknown
	Format string // of Value, as in driver.Raw: "json", "dynamodb-json", "bytes"
	Value  []byte // in the store's own form

	// Problem is the error that kept the source from reading the record, or nil. A record
	// with a problem goes to the Quarantine.
	Problem error
}

// Archived is a record as the archive holds it.
type Archived struct {
	Record
	Source     string
	ArchivedAt driver.Instant

	// Columns has the non-null values of WriterOptions.Columns, by name, each of the Go type
	// of NewColumn. In the Quarantine the only column is problem.
	Columns map[string]any
}

// check returns the reason why r cannot be archived, nil if it can.
func (r *Record) check() error {
	if r.Problem != nil {
		return r.Problem
	}
	if err := driver.CheckKey(r.Key, 0); err != nil {
		return err
	}
	if r.ExpiredAt == 0 {
		return &driver.InvalidError{Field: "Record.ExpiredAt", Value: "zero", Rule: "must be when the record died"}
	}
	if err := errors.Join(checkTime("Record.CreatedAt", r.CreatedAt), checkTime("Record.ExpiredAt", r.ExpiredAt)); err != nil {
		return err
	}
	if r.ExpiredAt < driver.Instant(dayMillis) { // Day zero is none, and Go's zero time is on another
		return &driver.InvalidError{Field: "Record.ExpiredAt", Value: strconv.FormatInt(int64(r.ExpiredAt), 10), Rule: "must be after 1970-01-01, in milliseconds"}
	}
	switch r.Reason {
	case "", Idle, Age, Deleted, Unknown:
	default:
		return &driver.InvalidError{Field: "Record.Reason", Value: strconv.Quote(string(r.Reason)), Rule: "must be idle, age, deleted or unknown"}
	}
	return errors.Join(checkText("Record.Generation", r.Generation), checkText("Record.Format", r.Format))
}

// checkTime returns an error for a time that names of days, JSON and many engines cannot express.
func checkTime(field string, i driver.Instant) error {
	if inYears(i) {
		return nil
	}
	return &driver.InvalidError{Field: field, Value: strconv.FormatInt(int64(i), 10), Rule: "must lie in the years 0 to 9999, in milliseconds"}
}

func inYears(i driver.Instant) bool { return i >= -62167219200000 && i < 253402300800000 }

func (r *Record) generation() string {
	switch {
	case r.Generation != "":
		return r.Generation
	case r.CreatedAt != 0:
		return strconv.FormatInt(int64(r.CreatedAt), 10)
	}
	return strconv.FormatInt(-int64(r.ExpiredAt), 10)
}

// identity identifies a life, and orders the records of a file. Its key is encoded.
type identity struct{ key, source, generation string }

func (i identity) compare(j identity) int {
	return cmp.Or(strings.Compare(i.key, j.key), strings.Compare(i.source, j.source), strings.Compare(i.generation, j.generation))
}

// size returns the bytes that a takes, about, and those of its key and columns that are longer than longBound.
func (a *Archived) size() (all, long int) {
	add := func(n int) {
		all += n
		if n > longBound {
			long += n
		}
	}
	add(len(a.Key))
	add(len(a.Source))
	add(len(a.Generation))
	for _, v := range a.Columns {
		switch v := v.(type) {
		case string:
			add(len(v))
		case []byte:
			add(len(v))
		}
	}
	return all + len(a.Value), long
}

func (a *Archived) identity() identity {
	return identity{keytext.Encode(a.Key), a.Source, a.Generation}
}

// latest returns the later of two versions of a life, with the columns that only the other has: what
// one of them says of whose life it is, is not lost.
func latest(a, b *Archived) *Archived {
	if cmp.Or(cmp.Compare(a.ExpiredAt, b.ExpiredAt), cmp.Compare(a.ArchivedAt, b.ArchivedAt)) > 0 {
		a, b = b, a
	}
	for name, v := range a.Columns {
		if _, has := b.Columns[name]; !has {
			if b.Columns == nil {
				b.Columns = make(map[string]any)
			}
			b.Columns[name] = v
		}
	}
	return b
}

// entry is a record with its identity, which is costly to compute.
type entry struct {
	id identity
	*Archived
}

func entryOf(a *Archived) entry { return entry{a.identity(), a} }

// lives sorts records by their identities, and keeps the latest version of each life.
func lives(records []entry) []entry {
	slices.SortFunc(records, func(a, b entry) int { return a.id.compare(b.id) })
	kept := records[:0]
	for _, e := range records {
		n := len(kept)
		switch {
		case n == 0 || kept[n-1].id != e.id:
			kept = append(kept, e)
		case latest(kept[n-1].Archived, e.Archived) == e.Archived:
			kept[n-1] = e
		}
	}
	return kept
}
