package driver

import (
	"fmt"
	"iter"
	"slices"
)

// KeyError is the error of one key in a call for many.
type KeyError struct {
	Index int // the key's place in the call, from zero
	Err   error
}

// Error implements error. It names the place, never the key.
func (e *KeyError) Error() string { return fmt.Sprintf("key %d: %v", e.Index, e.Err) }

// Unwrap returns what went wrong.
func (e *KeyError) Unwrap() error { return e.Err }

// KeyErrors are the failed keys of a call for many. All others got their answer.
type KeyErrors []*KeyError

// Error implements error, with the first of them.
func (e KeyErrors) Error() string {
	switch len(e) {
	case 0:
		return "no key failed"
	case 1:
		return e[0].Error()
	}
	return fmt.Sprintf("%d keys failed: %v", len(e), e[0])
}

// Unwrap returns all of them.
func (e KeyErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, k := range e {
		errs[i] = k
	}
	return errs
}

// Err returns e as an error, in the order of the call, nil if it is empty.
func (e KeyErrors) Err() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortFunc(e, func(a, b *KeyError) int { return a.Index - b.Index })
	return e
}

// Distinct yields each key once, with its first index.
func Distinct(keys []string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		met := make(map[string]bool, len(keys))
		for i, key := range keys {
			if !met[key] && !yield(i, key) {
				return
			}
			met[key] = true
		}
	}
}
