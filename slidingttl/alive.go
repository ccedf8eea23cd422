package slidingttl

import "github.com/slidingttl/slidingttl/slidingttl/driver"

// Alive reports whether e, a record under key that was found by other means than this
// store (a query of its own, an index, a view), is readable now: those often return
// records whose expiry or cap has passed. It is no access. e.Value is needed where
// Options.PolicyOf decides, and e.Meta always. A record without created_at has no cap,
// and is not readable where Options.Foreign is Reject.
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
