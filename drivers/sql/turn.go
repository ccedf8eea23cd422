package sql

import "context"

// turn is what the writers to a SQLite wait for, one after the other. It has but one lock, and
// who finds that taken sleeps there for a millisecond and more; here he is woken. A nil turn
// is everybody's.
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
