package sql

import "context"

// turn lets the writers to a SQLite file go one after the other. SQLite has one lock for all
// writers; a writer that finds it taken polls it every millisecond or more, and here it is woken
// instead. A nil turn holds nobody up.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits until it is the caller's turn.
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
