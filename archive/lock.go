package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Versioned is a Bucket that may keep versions of a deleted file, or refuse to remove one for a time.
// S3 does the first for a file that was deleted by other means than Remove, and the second under Object Lock.
type Versioned interface {
	Bucket

	// Hidden returns the files whose names begin with prefix and that exist behind a delete marker
	// only, which List leaves out. Each name has a suffix after a question mark that makes
	// ReadAt read that version. Remove and Removable act on all versions of the file.
	Hidden(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Removable returns nil if the bucket may remove all versions of the file now, and a
	// *LockedError if it may not.
	Removable(ctx context.Context, name string) error
}

// ErrLocked says that files may not be removed yet. A *LockedError matches it.
var ErrLocked = errors.New("locked")

// LockedError says until when files may not be removed. It matches ErrLocked.
type LockedError struct {
	Files int       // number of locked files
	File  string    // the file with the longest lock
	Until time.Time // when that lock ends; zero: a legal hold, which has no end of its own
}

// Error implements error.
func (e *LockedError) Error() string {
	until := "until somebody lifts a legal hold"
	if !e.Until.IsZero() {
		until = "until " + e.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%d files are %v and stay as they are, the last, %s, %s", e.Files, ErrLocked, e.File, until)
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// withLocked returns one *LockedError for two, of which each may be nil.
func withLocked(one, other error) error {
	a, ok := errors.AsType[*LockedError](one)
	b, also := errors.AsType[*LockedError](other)
	if !ok || !also {
		return cmp.Or(one, other)
	}
	last := *a
	if !a.Until.IsZero() && (b.Until.IsZero() || b.Until.After(a.Until)) {
		last = *b
	}
	last.Files = a.Files + b.Files
	return &last
}
