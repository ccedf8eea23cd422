package scsstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// page is how many records All reads at once.
const page = 1000

// All implements scs.IterableStore.
func (s *Store) All() (map[string][]byte, error) { return s.AllCtx(context.Background()) }

// AllCtx implements scs.IterableCtxStore. It returns all live sessions and touches none. In
// place of a token it has the session's key, or the sealed token of one that has not moved here from Options.Former.
// Commit and Delete of this Store accept both, and Find neither. A session that begins meanwhile may be missing.
// One that cannot be read is: no request can open it, so it does not keep the others from being ended. The log
// has their number and one reason. With an error, as when the store does not answer, it returns no sessions.
func (s *Store) AllCtx(ctx context.Context) (map[string][]byte, error) {
	// First, so that one which moves meanwhile is in both rather than in neither.
	former, err := s.allFormer(ctx)
	if err != nil {
		return nil, err
	}
	all, underWay := map[string][]byte{}, map[string]bool{}
	var left leftOut
	segments, err := s.scanner.Segments(ctx, 1)
	if err != nil {
		return nil, err
	}
	for _, at := range segments {
		for at != "" {
			found, err := s.scanner.Scan(ctx, at, page)
			if err != nil {
				return nil, err
			}
			keys := make([]string, 0, len(found.Records))
			for _, r := range found.Records {
				if isKey(r.Key) {
					keys = append(keys, r.Key)
				}
			}
			live, err := s.live(ctx, keys, &left)
			if err != nil {
				return nil, err
			}
			for key, e := range live {
				if s.before(&e) {
					all[key], underWay[key] = e.Value.Data, e.Value.Moving != moved
				}
			}
			at = found.Next
		}
	}
	for token, b := range former {
		here, both := all[key(token)]
		switch {
		case both && underWay[key(token)]: // by its token, for Delete to reach both
			delete(all, key(token))
			all[s.sealToken(token)] = here
		case both:
		default:
			if _, _, err := s.codec.Decode(b); err != nil {
				left.add(err)
				continue
			}
			all[s.sealToken(token)] = b
		}
	}
	if left.n > 0 {
		s.logger.WarnContext(ctx, "scsstore: sessions that cannot be read are left out of all", "sessions", left.n, "error", left.err)
	}
	return all, nil
}

// leftOut counts what cannot be read, and has a reason.
type leftOut struct {
	n   int
	err error
}

func (l *leftOut) add(err error) { l.n, l.err = l.n+1, cmp.Or(l.err, err) }

// live reads the live sessions under keys. If that fails, it asks for those that are missing one by one.
func (s *Store) live(ctx context.Context, keys []string, left *leftOut) (map[string]driver.Entry[Record], error) {
	live, err := s.records.PeekMulti(ctx, keys)
	if err == nil {
		return live, nil
	}
	for _, key := range keys {
		if _, found := live[key]; found {
			continue
		}
		e, err := s.records.Peek(ctx, key)
		switch {
		case err == nil:
			live[key] = e
		case errors.Is(err, slidingttl.ErrNotFound):
		case errors.Is(err, slidingttl.ErrInvalid), errors.Is(err, slidingttl.ErrForeign): // as Find says too
			left.add(err)
		default:
			return nil, err
		}
	}
	return live, nil
}
