package slidingttl

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
)

// Past is a dead record that the backing store still holds.
type Past[T any] struct {
	Entry[T]
	DiedAt Instant     // its expiry or its cap
	Cause  ReadOutcome // of its death: ReadDiedIdle or ReadDiedOfAge
}

// History returns the record that died under key, if the backing store still holds it.
//
// A store holds the dead if its driver's options say so, or because it deletes them late. The
// policy that the record would have now decides when it died, and of what. History only reads, and
// is not counted. ErrAlive: the record was alive when the call began. ErrNotFound: absent, deleted,
// or dead and no longer held. ErrForeign: it is foreign, and Options.Foreign is Reject.
func (s *Store[T]) History(ctx context.Context, key string) (p Past[T], err error) {
	err = s.callKey(ctx, opHistory, key, func() error {
		// What was dead before the read stays dead: no touch revives it meanwhile.
		began := driver.Floor(s.clock.Now())
		e, err := s.latest.Get(ctx, key)
		var r *rules.Rules
		if err == nil {
			r, err = s.rulesOf(key, &e.Value)
		}
		switch {
		case err != nil:
			return err
		case e.CreatedAt == 0 && s.opts.Foreign == Reject:
			return ErrForeign
		case r.Alive(e.Life, began):
			return ErrAlive
		}
		p = Past[T]{Entry: e, DiedAt: max(e.ExpiresAt, e.CreatedAt), Cause: ReadDiedIdle} // a retired one's expiry may lie before
		if r.DiedOfAge(e.Life) {
			p.DiedAt, p.Cause = r.Cap(e.CreatedAt), ReadDiedOfAge
		}
		return nil
	})
	return p, err
}
