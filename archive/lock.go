package archive

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Locker is a Bucket that keeps files from being removed for a time, as S3 does under Object Lock.
type Locker interface {
	Bucket

	// Removable returns nil if all that the bucket keeps of a file may be removed now,
	// and else a *LockedError.
	Removable(ctx context.Context, name string) error
}

// ErrLocked says that files may not be removed yet. It comes as a *LockedError.
var ErrLocked = errors.New("locked")

// LockedError says until when files may not be removed. It matches ErrLocked.
type LockedError struct {
	Files int       // how many
	File  string    // that which is locked for longest
	Until time.Time // when that ends; zero: not by itself, as of a legal hold
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

// with is e and other, which may be nil, in one.
func (e *LockedError) with(other *LockedError) *LockedError {
	if other == nil {
		return e
	}
	last := *e
	if !e.Until.IsZero() && (other.Until.IsZero() || other.Until.After(e.Until)) {
		last = *other
	}
	last.Files = e.Files + other.Files
	return &last
}
