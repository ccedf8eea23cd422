package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// List returns the live sessions of user, the last seen first. It touches none. With an error it
// returns those that could be read.
func (m *Manager[T]) List(ctx context.Context, user string) (_ []Info, err error) {
	defer mark(&err)
	members, err := m.members(ctx, user)
	if err != nil {
		return nil, err
	}
	found, err := m.store.PeekMulti(ctx, m.keys(members))
	list := make([]Info, 0, len(found))
	for key, e := range found {
		if e.Value.User == user { // an ended session has no user
			list = append(list, m.info(key, &e))
		}
	}
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, err
}

// Revoke ends the session of user that has this ID. If that is the request's own
// session, the client forgets its token, as by Destroy. An error that matches
// slidingttl.ErrNotFound: user has no such session.
func (m *Manager[T]) Revoke(ctx context.Context, user, id string) (err error) {
	defer mark(&err)
	members, err := m.members(ctx, user)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(members, func(s member) bool { return s.ID == id }) {
		return slidingttl.ErrNotFound
	}
	if err := m.buryAll(ctx, []string{m.key(id)}, ReasonRevoked); err != nil {
		return err
	}
	m.survived(ctx, m.delist(ctx, user, id))
	return nil
}

// RevokeAll ends all sessions of user but those with the IDs in except. After a change of
// password, for example, all but the request's own. If it ends the request's own session,
// the client forgets its token, as by Destroy. A session whose Login has not returned may
// escape it. After an error those are left that could not be read or written; call it again.
func (m *Manager[T]) RevokeAll(ctx context.Context, user string, except ...string) (err error) {
	defer mark(&err)
	members, err := m.members(ctx, user)
	if err != nil {
		return err
	}
	members = slices.DeleteFunc(members, func(s member) bool { return slices.Contains(except, s.ID) })
	if len(members) == 0 {
		return nil
	}
	if err := m.buryAll(ctx, m.keys(members), ReasonRevoked); err != nil {
		return err
	}
	return m.delist(ctx, user, ids(members)...)
}

// Bounds of buryAll.
const (
	briefly  = time.Second // how long each call may take once one was silent
	silences = 8           // so many in a row say that the store is silent
)

// buryAll ends the live sessions under keys, all that it can, and returns an error if there were
// others. One that does not answer holds up the others briefly. The calls are made one after the other, because
// ctx may have a transaction. If the request's own session is among them, the client forgets its token, as by
// Destroy.
func (m *Manager[T]) buryAll(ctx context.Context, keys []string, why Reason) (failed error) {
	bound, inRow := silence, 0
	silent := func(err error) bool { return errors.Is(err, errSilent) || errors.Is(err, context.DeadlineExceeded) }
	found, unread := within(ctx, share(ctx, bound), func(ctx context.Context) (map[string]driver.Entry[Record], error) {
		return m.stored.PeekMulti(ctx, keys)
	})
	if silent(unread) {
		bound = min(bound, briefly)
	}
	q, _ := m.of(ctx) // nil: not from a request
	for _, key := range keys {
		e, read := found[key]
		_, err := within(ctx, share(ctx, bound), func(ctx context.Context) (_ Record, err error) {
			if !read && unread != nil {
				e, err = m.stored.Peek(ctx, key)
			}
			if err != nil || e.Value.Kind != live {
				return Record{}, cmp.Or(err, ErrEnded)
			}
			return m.bury(ctx, key, &e, nil, why)
		})
		switch {
		case err == ErrEnded, errors.Is(err, slidingttl.ErrNotFound):
			inRow = 0
		case err != nil:
			if failed = err; !silent(err) {
				continue
			}
			if bound, inRow = min(bound, briefly), inRow+1; inRow == silences || ctx.Err() != nil {
				return failed
			}
		default:
			if inRow = 0; q != nil && q.has(key) {
				q.drop(true)
			}
		}
	}
	if failed == nil {
		m.survived(ctx, unread)
	}
	return failed
}

// share is d, or a quarter of what ctx has left if that is less: the rest is for what else its request has to do.
func share(ctx context.Context, d time.Duration) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return min(d, time.Until(until)/4)
	}
	return d
}

// indexKeyOf is the key of user's index. It is a hash, because users' names may be longer
// than a key, and the store need not know them.
func (m *Manager[T]) indexKeyOf(user string) string {
	h := sha256.Sum256([]byte(user))
	return m.opts.KeyPrefix + indexKey + alphabet.EncodeToString(h[:])
}

// members returns a copy of user's index.
func (m *Manager[T]) members(ctx context.Context, user string) ([]member, error) {
	e, err := m.store.Peek(ctx, m.indexKeyOf(user))
	if errors.Is(err, slidingttl.ErrNotFound) {
		return nil, nil
	}
	return slices.Clone(e.Value.Sessions), err
}

func ids(members []member) []string {
	ids := make([]string, len(members))
	for i, s := range members {
		ids[i] = s.ID
	}
	return ids
}

func (m *Manager[T]) keys(members []member) []string {
	keys := make([]string, len(members))
	for i, s := range members {
		keys[i] = m.key(s.ID)
	}
	return keys
}

// list has user's index outlast the session now by the policies of this manager, which are
// longer than those of the release that listed it. A session that no index lists is listed.
func (m *Manager[T]) list(ctx context.Context, now *current[T]) error {
	if _, _, err := m.add(ctx, now, ""); err != nil {
		return err
	}
	e, err := m.store.UpdateEntry(ctx, now.key, now.entry, func(r Record) (Record, error) {
		if r.Kind != live || m.policies.outlasted(&r) {
			return r, errUnchanged
		}
		return m.policies.listed(r), nil
	})
	if err == nil {
		now.entry = e
	}
	if err == errUnchanged || errors.Is(err, slidingttl.ErrNotFound) {
		return nil
	}
	return err
}

// enlist adds the session now to its user's index, in place of the session replaces, and
// ends the sessions over the bound.
func (m *Manager[T]) enlist(ctx context.Context, now *current[T], replaces string) error {
	over, unread, err := m.add(ctx, now, replaces)
	if err != nil {
		return err
	}
	m.survived(ctx, unread)
	if len(over) == 0 {
		return nil
	}
	if err := m.buryAll(ctx, m.keys(over), ReasonEvicted); err != nil {
		m.survived(ctx, err) // they stay listed
		return nil
	}
	m.survived(ctx, m.delist(ctx, now.entry.Value.User, ids(over)...))
	return nil
}

// add is enlist that only returns the sessions over the bound, and why others could not be read, nil
// if all could. Those count, but none is ended in their place: a later login does that. It calls no
// hook. A session leaves the index only once it has ended.
func (m *Manager[T]) add(ctx context.Context, now *current[T], replaces string) (over []member, unread, err error) {
	user := now.entry.Value.User
	var a answers
	lasts := m.policies.session(now.entry.Value)
	added := member{
		ID:        idOf(now.key),
		CreatedAt: now.entry.CreatedAt,
		Until:     lasts.Cap(now.entry.CreatedAt),
	}
	listed := func(r Record) (Record, error) {
		list, unasked := make([]member, 0, len(r.Sessions)+1), false
		for _, s := range r.Sessions {
			if s.ID != replaces && s.ID != added.ID && !a.gone[s.ID] {
				list = append(list, s)
				_, asked := a.gone[s.ID]
				unasked = unasked || !asked
			}
		}
		if unasked && len(list) >= m.opts.MaxPerUser {
			return r, errUnasked
		}
		first := func(s member) bool { return a.dead[s.ID] || a.unread[s.ID] }
		slices.SortStableFunc(list, func(a, b member) int {
			switch {
			case first(a) == first(b):
				return cmp.Compare(a.CreatedAt, b.CreatedAt)
			case first(a):
				return -1
			}
			return 1
		})
		list = append(list, added) // last, though it may have begun before others by this server's clock
		over = slices.Clone(list[:max(0, len(list)-m.opts.MaxPerUser)])
		return Record{Kind: index, Sessions: list, Lasts: max(r.Lasts, lasts.MaxLifetime)}, nil
	}
	key := m.indexKeyOf(user)
	for {
		if a, err = m.ask(ctx, user, added.ID, replaces); err != nil {
			return nil, nil, err
		}
		if _, err = m.store.Update(ctx, key, listed); err == errUnasked {
			continue
		} else if !errors.Is(err, slidingttl.ErrNotFound) {
			break
		}
		first, _ := listed(Record{})
		if err = m.store.Insert(ctx, key, first); !errors.Is(err, slidingttl.ErrExists) {
			break
		}
	}
	return slices.DeleteFunc(over, func(s member) bool { return a.unread[s.ID] }), a.failed, err
}

// errUnasked says that another login has filled the index since the records were asked.
var errUnasked = errors.New("unasked")

// answers is what the store says of the sessions on a user's index.
type answers struct {
	gone   map[string]bool // no server has it any more; has a key for each session that was read or tried
	dead   map[string]bool // dead by the clock and the policies here: the first to end
	unread map[string]bool // its read failed, and it may live
	failed error           // why
}

// ask asks the store for the sessions on user's index. The index cannot
// know: a policy may have changed since it was written. So the records are read: of the
// sessions that should have reached their absolute timeout or, with an index that is full without those
// in not, of all, so that no live session is ended in their place.
func (m *Manager[T]) ask(ctx context.Context, user string, not ...string) (a answers, err error) {
	members, err := m.members(ctx, user)
	if err != nil {
		return a, err
	}
	at := driver.Floor(m.store.Now())
	if members = slices.DeleteFunc(members, func(s member) bool { return slices.Contains(not, s.ID) }); len(members) < m.opts.MaxPerUser {
		members = slices.DeleteFunc(members, func(s member) bool { return s.Until > at })
	}
	if len(members) == 0 {
		return a, nil
	}
	found, err := m.stored.PeekMulti(ctx, m.keys(members))
	if _, some := errors.AsType[slidingttl.KeyErrors](err); err != nil && !some {
		return a, err
	}
	a = answers{map[string]bool{}, map[string]bool{}, map[string]bool{}, err}
	for _, s := range members {
		e, ok := found[m.key(s.ID)]
		a.unread[s.ID] = !ok && err != nil
		a.gone[s.ID] = e.Value.Kind != live || !ok && err == nil
		a.dead[s.ID] = min(e.ExpiresAt, m.policies.of(e.Value).Cap(e.CreatedAt)) <= at
	}
	return a, nil
}

// delist takes sessions off user's index.
func (m *Manager[T]) delist(ctx context.Context, user string, gone ...string) error {
	_, err := m.store.Update(ctx, m.indexKeyOf(user), func(r Record) (Record, error) {
		left := make([]member, 0, len(r.Sessions))
		for _, s := range r.Sessions {
			if !slices.Contains(gone, s.ID) {
				left = append(left, s)
			}
		}
		if len(left) == len(r.Sessions) {
			return r, errUnchanged
		}
		r.Sessions = left
		return r, nil
	})
	if err == errUnchanged || errors.Is(err, slidingttl.ErrNotFound) {
		return nil
	}
	return err
}
