package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ErrNoSpace says that the bucket has no room, or is over its quota.
var ErrNoSpace = errors.New("no space left in the archive")

// ErrRefused says that the bucket refuses the call. It matches [driver.ErrRefused], so that
// a source gives up at once.
var ErrRefused error = refused{}

// ErrKeyService says that the key service does not answer, or refuses the key.
var ErrKeyService = errors.New("the key service fails")

// ErrCorrupt says that a file is not as it was written. A *CorruptError matches it.
var ErrCorrupt = errors.New("corrupt")

// ErrVersion says that another version of this package has changed a day.
//
// This one does not know its layout. It comes with a *CorruptError.
var ErrVersion = errors.New("of another version")

// ErrClock says that a clock is wrong: of two times both cannot be right.
var ErrClock = errors.New("a clock is wrong")

type refused struct{}

// Error implements error.
func (refused) Error() string { return "the archive refuses" }

// Is reports whether target is [driver.ErrRefused].
func (refused) Is(target error) bool { return target == driver.ErrRefused }

// CorruptError names a file that is not as it was written. It matches ErrCorrupt. Other
// files are still read.
type CorruptError struct {
	File string
	Err  error // what is wrong with it
}

// Error implements error.
func (e *CorruptError) Error() string { return fmt.Sprintf("%s is %v: %v", e.File, ErrCorrupt, e.Err) }

// Unwrap returns ErrCorrupt, and what is wrong.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// clockError returns an ErrClock for two times that cannot both be right: what seen is of, and now.
func clockError(what string, seen, now time.Time) error {
	return fmt.Errorf("%w: %s is %s, and it is %s here", ErrClock, what, seen.Format(time.RFC3339), now.Format(time.RFC3339))
}

// checkText returns an error for text that is not valid UTF-8, which no column of text can hold.
func checkText(field, value string) error {
	if utf8.ValidString(value) {
		return nil
	}
	return &driver.InvalidError{Field: field, Value: strconv.Itoa(len(value)) + " bytes", Rule: "must be valid UTF-8"}
}

// diskError wraps a file system's error in ErrNoSpace or ErrRefused where one fits.
func diskError(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNoSpace), errors.Is(err, ErrRefused):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
