package slidingttl

import "github.com/slidingttl/slidingttl/slidingttl/driver"

// Alive reports whether e, a record under key that was found by other means, is readable now.
//
// A query of one's own, an index or a view often return records whose expiry or cap has
// passed. Alive is no access. It needs e.Meta, and e.Value where Options.PolicyOf decides. A
// record without created_at has no cap, and is not readable where Options.Foreign is Reject.
//
// An error is an *[InvalidError] for a policy that Options.PolicyOf or PolicyFor gave.
func (s *Store[T]) Alive(key string, e Entry[T]) (bool, error) {
	r, err := s.rulesOf(key, &e.Value)
	if err != nil {
		return false, err
	}
	now := driver.Floor(s.clock.Now())
	return r.Alive(e.Life, now) && (e.CreatedAt != 0 || s.opts.Foreign != Reject), nil
}
