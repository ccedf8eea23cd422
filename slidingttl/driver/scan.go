package driver

import (
	"context"
	"strconv"
)

// Scanner is a driver that can list the keys and lives of all records of its store.
type Scanner interface {
	// Segments splits the store into n parts, and returns a cursor at the beginning of each.
	//
	// They are fewer where the store cannot be split so far. Together they hold every
	// record. Several processes may scan them at once. An n below one is an *InvalidError.
	Segments(ctx context.Context, n int) ([]Cursor, error)

	// Scan returns the page that begins at from, of about limit records, fewer or none included.
	//
	// A record that is there throughout the scan, touched meanwhile or not, is in at least
	// one page; one that is overwritten or deleted may be in none, one or several, in any
	// of the states it had. Records come in no order, dead ones that the store still holds
	// among them.
	//
	// An error leaves the cursor good: Scan may be called with it again. A cursor
	// that this driver cannot have returned, the empty one included, and a limit
	// below one are an *InvalidError.
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
	Next    Cursor  // where the next page begins; empty: the segment has no more
	Passed  int     // what was met and is no record: of another type, or under a key that the driver does not make
	Cost    float64 // what the store said that the page cost, in its own unit; zero if it does not say
}

// Scanned is a record met by a scan.
type Scanned struct {
	Key       string
	Meta              // the Version of a record without created_at may be zero: a write learns it by a conflict
	HeldUntil Instant // until when the store holds it, where that is past its expiry; zero: no longer, or it does not say
	Size      int     // bytes stored, as far as the store tells; zero: unknown
	Fault     string  // why the store does not act on the expiry, though it is read; see Mender; empty: it does
	Full      error   // why the store has no room for what a touch adds (an *InvalidError), as far as the scan tells; nil: it has
	Problem   error   // why the record's life cannot be read (an *InvalidError); Meta has what could be
}
