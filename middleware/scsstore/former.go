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

// moving is how far the move of a session has come. Each request that finds one under way moves it
// on, for the request that began it may have failed: what is left in the former store would bring the
// session back after its end here.
type moving int

const (
	moved   moving = iota
	copied         // a Destroy may have come before the copy, and missed it
	checked        // it had not; the session is to be deleted there
)

// copyFormer copies the session of token from the former store into this one. Not found: it is
// in neither.
func (s *Store) copyFormer(ctx context.Context, token string) (e driver.Entry[Record], err error) {
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
	e, err = s.records.InsertEntry(ctx, key(token), Record{Data: b, Until: driver.Ceil(deadline), Moving: copied})
	if errors.Is(err, slidingttl.ErrExists) {
		return s.records.Peek(ctx, key(token))
	}
	return e, err
}

// errMovedOn says that another request was faster.
var errMovedOn = errors.New("moved on")

// moveOn does the next step of the move of e and returns the record after it.
func (s *Store) moveOn(ctx context.Context, token string, e driver.Entry[Record]) (driver.Entry[Record], error) {
	var next moving
	switch e.Value.Moving {
	case copied:
		// A Destroy deletes there first, then here.
		_, found, err := s.findFormer(ctx, token)
		if err != nil {
			return e, err
		}
		if !found {
			err = s.records.DeleteEntry(ctx, key(token), e)
			if errors.Is(err, slidingttl.ErrConflict) { // another request has deleted it there, to move it
				return s.records.Peek(ctx, key(token))
			}
			if err == nil {
				err = slidingttl.ErrNotFound
			}
			return e, err
		}
		next = checked
	default:
		if err := s.deleteFormer(ctx, token); err != nil {
			return e, err
		}
	}
	after, err := s.records.UpdateEntry(ctx, key(token), e, func(r Record) (Record, error) {
		if r.Moving != e.Value.Moving {
			return r, errMovedOn
		}
		r.Moving = next
		return r, nil
	})
	if err == errMovedOn {
		return s.records.Peek(ctx, key(token))
	}
	return after, err
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
