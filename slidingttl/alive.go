package slidingttl

import "github.com/slidingttl/slidingttl/slidingttl/driver"

// Alive reports whether e, a record under key that was found by other means, is readable now.
//
// An application's own queries, indexes and views often return records whose expiry or cap has
// passed. Alive is no access. It needs e.Meta, and e.Value if Options.PolicyOf is set. A record
// without created_at has no cap; if Options.Foreign is Reject, it is not readable.
//
// An error is an *[InvalidError] for a policy that Options.PolicyOf or PolicyFor returned.
func (s *Store[T]) Alive(key string, e Entry[T]) (bool, error) {
	r, err := s.rulesOf(key, &e.Value)
	if err != nil {
		return false, err
	}
	now := driver.Floor(s.clock.Now())
	return r.Alive(e.Life, now) && (e.CreatedAt != 0 || s.opts.Foreign != Reject), nil
}
