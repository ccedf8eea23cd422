package scsstore

import (
	"context"
	"errors"

	"github.com/alexedwards/scs/v2"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Former is a store of scs that can list its sessions, as Iterate needs.
type Former interface {
	scs.Store
	scs.IterableStore
}

// move brings the session of token from the former store into this one. Not found: it is
// in neither.
func (s *Store) move(ctx context.Context, token string) (e driver.Entry[Record], err error) {
	b, found, err := s.findFormer(ctx, token)
	if err != nil {
		return e, err
	}
	if !found { // or another request has moved it
		return s.records.Peek(ctx, key(token))
	}
	deadline, _, err := s.codec.Decode(b)
	if err != nil {
		return e, err
	}
	e, err = s.records.InsertEntry(ctx, key(token), Record{Data: b, Until: driver.Ceil(deadline)})
	if errors.Is(err, slidingttl.ErrExists) {
		return s.records.Peek(ctx, key(token))
	}
	if err != nil {
		return e, err
	}
	// A Destroy deletes there first, then here. If it came in between, it missed what was
	// just inserted.
	if _, found, err = s.findFormer(ctx, token); err != nil {
		return e, err
	}
	if !found {
		if err := s.records.Delete(ctx, key(token)); err != nil {
			return e, err
		}
		return e, slidingttl.ErrNotFound
	}
	// What is left there would bring the session back after its end here.
	return e, s.deleteFormer(ctx, token)
}

func (s *Store) findFormer(ctx context.Context, token string) (b []byte, found bool, err error) {
	if c, ok := s.former.(scs.CtxStore); ok {
		return c.FindCtx(ctx, token)
	}
	return s.former.Find(token)
}

func (s *Store) deleteFormer(ctx context.Context, token string) error {
	if c, ok := s.former.(scs.CtxStore); ok {
		return c.DeleteCtx(ctx, token)
	}
	return s.former.Delete(token)
}

func (s *Store) allFormer(ctx context.Context) (map[string][]byte, error) {
	switch f := s.former.(type) {
	case nil:
		return nil, nil
	case scs.IterableCtxStore:
		return f.AllCtx(ctx)
	}
	return s.former.All()
}
