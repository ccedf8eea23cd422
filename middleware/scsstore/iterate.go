package scsstore

import (
	"context"
)

// page is how many records All reads at once.
const page = 1000

// All implements scs.IterableStore.
func (s *Store) All() (map[string][]byte, error) { return s.AllCtx(context.Background()) }

// AllCtx implements scs.IterableCtxStore. It returns all live sessions and touches none. In
// place of a token it has the session's key, which Commit and Delete accept and Find does
// not. A session that begins meanwhile may be missing. With an error it returns no
// sessions.
func (s *Store) AllCtx(ctx context.Context) (map[string][]byte, error) {
	// First, so that one which moves meanwhile is in both rather than in neither.
	former, err := s.allFormer(ctx)
	if err != nil {
		return nil, err
	}
	all, underWay := map[string][]byte{}, map[string]bool{}
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
			live, err := s.records.PeekMulti(ctx, keys)
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
		case !both:
			all[token] = b
		case underWay[key(token)]: // by its token, for Delete to reach both
			delete(all, key(token))
			all[token] = here
		}
	}
	return all, nil
}
