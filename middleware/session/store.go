package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// silence is how long a call of the store may take, with its repetitions and the caller's function in it. Some clients
// repeat a read for as long as its context lasts, and few requests have a deadline.
const silence = 10 * time.Second

// errSilent says that a call was given up because its time was over.
var errSilent = errors.New("session: not done in time")

// store is a Store whose calls end with an *Error after silence. A touch has its own bound.
type store struct {
	*slidingttl.Store[Record]
}

// within makes call with a context that ends after d.
func within[V any](ctx context.Context, d time.Duration, call func(context.Context) (V, error)) (V, error) {
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	v, err := call(bounded)
	if _, own := err.(foreign); err != nil && !own && bounded.Err() != nil && ctx.Err() == nil && (errors.Is(err, bounded.Err()) || errors.Is(err, slidingttl.ErrAmbiguous)) {
		err = &Error{fmt.Errorf("%w: %w", errSilent, err)}
	}
	return v, err
}

func (s store) Peek(ctx context.Context, key string) (driver.Entry[Record], error) {
	return within(ctx, silence, func(ctx context.Context) (driver.Entry[Record], error) { return s.Store.Peek(ctx, key) })
}

func (s store) PeekMulti(ctx context.Context, keys []string) (map[string]driver.Entry[Record], error) {
	return within(ctx, silence, func(ctx context.Context) (map[string]driver.Entry[Record], error) {
		return s.Store.PeekMulti(ctx, keys)
	})
}

func (s store) Insert(ctx context.Context, key string, r Record) error {
	_, err := s.InsertEntry(ctx, key, r)
	return err
}

func (s store) InsertEntry(ctx context.Context, key string, r Record) (driver.Entry[Record], error) {
	return within(ctx, silence, func(ctx context.Context) (driver.Entry[Record], error) { return s.Store.InsertEntry(ctx, key, r) })
}

func (s store) Update(ctx context.Context, key string, f func(Record) (Record, error)) (Record, error) {
	return within(ctx, silence, func(ctx context.Context) (Record, error) { return s.Store.Update(ctx, key, f) })
}

func (s store) UpdateEntry(ctx context.Context, key string, e driver.Entry[Record], f func(Record) (Record, error)) (driver.Entry[Record], error) {
	return within(ctx, silence, func(ctx context.Context) (driver.Entry[Record], error) { return s.Store.UpdateEntry(ctx, key, e, f) })
}

func (s store) DeleteEntry(ctx context.Context, key string, e driver.Entry[Record]) error {
	_, err := within(ctx, silence, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Store.DeleteEntry(ctx, key, e) })
	return err
}
