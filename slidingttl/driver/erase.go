package driver

import (
	"context"
	"slices"
	"strings"
)

// Eraser is a driver whose store may hold more of a person than its scans show and Delete removes.
type Eraser interface {
	// Whole returns a Scanner of all that the store holds, also of what options of the driver leave
	// out of its own scans. What is under keys of what and is no record is Scanned.Other there. Of
	// other keys it may return the key alone. If it is a RawReader, that one finds each record under a key,
	// also under one that the driver refuses.
	Whole(what Erasure) Scanner

	// EraseEnded removes the lives that the store keeps beside its records, of all keys of what, and
	// returns their number: those that wait for an archive, or stand apart from a record that is gone.
	// later is the number of those that a call under way may still need, and that another erasure
	// removes an hour later. Without apply it only counts.
	EraseEnded(ctx context.Context, what Erasure, apply bool) (ended, later int64, err error)

	// Scrub has the store write its own files anew where they may still hold deleted records, of
	// keys of what. It returns in words what it cannot, and an error if another call may.
	Scrub(ctx context.Context, what Erasure) (left []string, err error)
}

// Erasure is what to erase: Keys, which are sorted, or all keys that begin with Prefix.
type Erasure struct {
	Keys   []string
	Prefix string
}

// Has reports whether key is to be erased.
func (e Erasure) Has(key string) bool {
	if e.Prefix != "" {
		return strings.HasPrefix(key, e.Prefix)
	}
	_, is := slices.BinarySearch(e.Keys, key)
	return is
}
