package driver

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
)

// BatchGetter is a driver that reads many records in fewer trips than keys.
type BatchGetter[T any] interface {
	Driver[T]

	// GetMulti returns the records under keys as they are stored, alive or not.
	//
	// Absent keys are left out, duplicates are read once. Keys that the store cannot take, and keys
	// whose records do not decode, are in a [KeyErrors] with their first index in keys; all others
	// are read. Any other error comes with the entries that could be read: where a part of the store
	// does not answer, those of the others.
	GetMulti(ctx context.Context, keys []string) (map[string]Entry[T], error)
}

// failuresPerAnswer is how many reads may fail for each that was answered, and before the first. More show
// that a store does not answer, and not a part of it only.
const failuresPerAnswer = 16

// GetMulti reads keys from d, one after the other unless d is a [BatchGetter].
//
// One after the other, it reads the keys in random order, since those of a part of the store that does not
// answer may stand in a row. It reads on beyond keys that fail, but ends when ctx has ended, or after sixteen
// failures and sixteen more for each key that was answered: each may take as long as a call may.
func GetMulti[T any](ctx context.Context, d Driver[T], keys []string) (map[string]Entry[T], error) {
	if b, ok := As[BatchGetter[T]](d); ok {
		return b.GetMulti(ctx, keys)
	}
	found := make(map[string]Entry[T], len(keys))
	places := make([]int, 0, len(keys)) // in keys
	for i := range Distinct(keys) {
		places = append(places, i)
	}
	rand.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	var invalid KeyErrors
	var failed error // the first
	answers, failures := 0, 0
	for _, i := range places {
		if err := ctx.Err(); err != nil {
			return found, cmp.Or(failed, err)
		}
		e, err := d.Get(ctx, keys[i])
		answers++
		switch {
		case err == nil:
			found[keys[i]] = e
		case errors.Is(err, ErrInvalid):
			invalid = append(invalid, &KeyError{Index: i, Err: err})
		case errors.Is(err, ErrNotFound):
		default:
			failed = cmp.Or(failed, err)
			answers--
			failures++
		}
		if failures >= failuresPerAnswer*(answers+1) {
			return found, failed
		}
	}
	if failed != nil {
		return found, failed
	}
	slices.SortFunc(invalid, func(a, b *KeyError) int { return cmp.Compare(a.Index, b.Index) })
	return found, invalid.Err()
}
