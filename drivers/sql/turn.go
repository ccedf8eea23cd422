package sql

import "context"

// turn makes writers to a SQLite file go one at a time. SQLite has one lock for all writers, and a
// waiting writer polls it every millisecond or more; turn wakes it instead. A nil turn never
// blocks.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	if t == nil {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) pass() {
	if t != nil {
		<-t
	}
}
