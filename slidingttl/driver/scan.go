package driver

import (
	"context"
	"strconv"
)

// Scanner is a driver that can list the keys and lives of all records of its store.
type Scanner interface {
	// Segments splits the store into n parts, and returns a cursor at the beginning of each.
	//
	// There are fewer if the store cannot be split so far. Together they hold every record. Several
	// processes may scan them at once. An n below one is an *InvalidError.
	Segments(ctx context.Context, n int) ([]Cursor, error)

	// Scan returns the page that begins at from, of about limit records, fewer or none included.
	//
	// A record that exists throughout the scan is in at least one page, also if it is touched
	// meanwhile. One that is overwritten or deleted may be in none, one or several, in any of its
	// states. Records come in no order, and include dead ones that the store still holds.
	//
	// After an error, Scan may be called again with the same cursor. A cursor that this driver
	// cannot have returned, the empty one included, and a limit below one are an *InvalidError.
	Scan(ctx context.Context, from Cursor, limit int) (Page, error)
}

// CheckScan returns an *InvalidError if n, the argument field of a Scanner, is less than one.
func CheckScan(field string, n int) error {
	if n < 1 {
		return &InvalidError{Field: field, Value: strconv.Itoa(n), Rule: "must be at least 1"}
	}
	return nil
}

// BadCursor is the error for a cursor that a driver cannot have returned. A cursor may hold a
// key, so none of it is quoted.
func BadCursor(c Cursor) error {
	return &InvalidError{Field: "cursor", Value: strconv.Itoa(len(c)) + " bytes", Rule: "must be one that this driver returned"}
}

// Cursor is a place in a scan, as text. The empty one is the end.
//
// It can be stored, and used by another process over a driver with the same configuration.
type Cursor string

// Page is a part of a scan.
type Page struct {
	Records []Scanned
	Next    Cursor  // start of the next page; empty: the segment has no more
	Passed  int     // entries that are no records: of another type, or with a key that the driver does not write
	Cost    float64 // cost that the store reported, in its unit; zero: not reported

	// Restarted says that the store has lost the place, as Redis does when it restarts: this page is
	// the segment's first, and the earlier ones come again.
	Restarted bool
}

// Scanned is a record as a scan returns it.
type Scanned struct {
	Key       string
	Meta              // Version may be zero without created_at: a write then gets it from a conflict
	HeldUntil Instant // when the store removes it, if later than its expiry; zero: not later, or unknown
	Size      int     // stored bytes; zero: unknown
	Fault     string  // why the store does not act on a readable expiry; see Mender; empty: it does
	Full      error   // an *InvalidError if the item has no room for what a touch adds; nil: it has, or unknown
	Problem   error   // an *InvalidError if the life cannot be read; Meta has what could be
	Other     bool    // it is no record: of another type, for example; from Eraser.Whole only
}
