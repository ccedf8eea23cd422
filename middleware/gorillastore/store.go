package gorillastore

import (
	"context"
	"net/http"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Data is what the Manager under a Store keeps of a session. Its content is the Store's.
type Data struct {
	Name   string `json:"name"`             // of the session and its cookie
	Values []byte `json:"values,omitempty"` // encoded by gob
}

// Store is a Store of gorilla/sessions. It is safe for concurrent use; the sessions of one request
// are not.
type Store struct {
	// Options are what the cookie of a session gets, unless its own Options are changed. Set
	// them before the Store is used.
	Options *gorilla.Options

	sessions *session.Manager[Data]
	login    func(*gorilla.Session) session.Login
	merge    func(key, was, stored, saved any) (any, error)
	visits   visits
}

// New returns a Store that keeps its sessions in d. opts may be nil; it is copied. New does no
// I/O. The caller closes first what Sessions returns, then d. If d is nil, sessions are kept in
// this process's memory.
//
// An option that breaks its rule is a *slidingttl.InvalidError that names it.
func New(d driver.Driver[session.Record], opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	m, err := session.New[Data](d, &o.Sessions)
	if err != nil {
		return nil, err
	}
	s := &Store{
		Options:  &gorilla.Options{Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode},
		sessions: m,
		login:    o.Login,
		merge:    o.Merge,
	}
	if s.login == nil {
		s.login = func(*gorilla.Session) session.Login { return session.Login{} }
	}
	if s.merge == nil {
		s.merge = mergeLists
	}
	return s, nil
}

// Sessions returns the session.Manager below, for its List, Revoke, RevokeAll, Check, Stats and
// Close.
func (s *Store) Sessions() *session.Manager[Data] { return s.sessions }

// Get implements gorilla's Store. It returns the session of the request that has this name, from
// gorilla's registry if the request has asked for it before.
func (s *Store) Get(r *http.Request, name string) (*gorilla.Session, error) {
	return gorilla.GetRegistry(r).Get(s, name)
}

// New implements gorilla's Store. It reads the session, and touches it if that is due. It never
// returns a nil session.
func (s *Store) New(r *http.Request, name string) (*gorilla.Session, error) {
	options := *s.Options
	v := gorilla.NewSession(s, name)
	v.IsNew, v.Options = true, &options
	visit, err := s.read(r, name, v)
	s.visits.add(v, visit)
	return v, err
}

// read gives v the session of the request's cookie, if it has one.
func (s *Store) read(r *http.Request, name string, v *gorilla.Session) (*visit, error) {
	visit := s.visit(tokenOf(r, name))
	now, err := s.sessions.Get(visit.context(r))
	switch {
	case err != nil:
		return visit, err
	case now.ID == "":
		return visit, nil
	case now.Data.Name != name: // a client has renamed its cookie
		return s.visit(""), nil
	}
	values, err := decode(now.Data.Values)
	if err != nil {
		visit.bad = err
		return visit, err
	}
	visit.read = now.Data.Values
	v.ID, v.Values, v.IsNew = now.ID, values, false
	return visit, nil
}

// tokenOf returns the token in the request's cookie. Of two cookies nothing tells which server set
// which.
func tokenOf(r *http.Request, name string) string {
	if found := r.CookiesNamed(name); len(found) == 1 {
		return found[0].Value
	}
	return ""
}

// Save implements gorilla's Store. It writes what the request has changed, or ends the session if
// its Options.MaxAge is negative. A new session without Values is not written. A Session that this
// Store's New did not return is saved as a new one, in place of the request's.
//
// Errors: *ConflictError, session.ErrEnded, gob's, one that matches slidingttl.ErrInvalid where
// the values are over Options.Sessions.MaxData or Login says what is not valid, the store's. With
// an error no change is written and no cookie is sent.
func (s *Store) Save(r *http.Request, w http.ResponseWriter, v *gorilla.Session) error {
	visit := s.visits.of(v)
	foreign := visit == nil
	if foreign {
		visit = s.visit(tokenOf(r, v.Name()))
		v.ID = ""
	}
	ctx := visit.context(r)
	if v.Options.MaxAge < 0 {
		if err := s.sessions.Destroy(ctx); err != nil {
			return err
		}
		return s.answer(ctx, w, v, nil)
	}
	if visit.bad != nil && len(v.Values) == 0 {
		return visit.bad
	}
	m, err := newMerger(v.Name(), visit.read, v.Values)
	if err != nil {
		return err
	}
	m.resolve, m.replaces = s.merge, foreign || visit.bad != nil
	now, err := s.sessions.Get(ctx)
	if err != nil {
		return err
	}
	login := s.login(v)
	switch replaces := v.ID == "" || login.User != now.User; {
	case now.ID == "" && len(v.Values) == 0:
		return nil
	case replaces && login.User != "":
		m.wins = true
		err = s.sessions.Login(ctx, login, m.apply)
	case replaces && now.ID != "":
		err = s.replace(ctx, m)
	case now.ID == "":
		err = s.sessions.Update(ctx, m.apply)
	default:
		return s.update(ctx, w, v, visit, m)
	}
	if err != nil {
		return err
	}
	return s.answer(ctx, w, v, m)
}

// replace begins an anonymous session in place of the request's, with the values of that as they are
// now. A change that is written just before it ends is lost.
func (s *Store) replace(ctx context.Context, m *merger) error {
	if !m.replaces {
		now, err := s.sessions.Refresh(ctx)
		if err != nil {
			return err
		}
		if now.ID == "" {
			return session.ErrEnded
		}
		if err := s.sessions.Update(ctx, m.apply); err != nil {
			return err
		}
	}
	if err := s.sessions.Destroy(ctx); err != nil {
		return err
	}
	return s.sessions.Update(ctx, func(d *Data) error {
		*d = Data{Name: m.name, Values: m.stored}
		return nil
	})
}

// update writes the session that the request has, and sends its cookie if that needs to be renewed.
func (s *Store) update(ctx context.Context, w http.ResponseWriter, v *gorilla.Session, visit *visit, m *merger) error {
	if err := s.sessions.Update(ctx, m.apply); err != nil {
		return err
	}
	unchanged := m.unchanged && m.result == nil
	m.update(v)
	visit.read = m.stored
	now, err := s.sessions.Get(ctx)
	if err != nil {
		return err
	}
	age := time.Duration(v.Options.MaxAge) * time.Second
	outlived := age > 0 && (now.AbsoluteExpiry.IsZero() || age < time.Until(now.AbsoluteExpiry))
	if *v.Options == *s.Options && !outlived {
		return nil
	}
	if unchanged { // a login elsewhere may have given the client another cookie
		if now, err = s.sessions.Refresh(ctx); err != nil {
			return err
		}
		if now.ID == "" {
			return session.ErrEnded
		}
	}
	http.SetCookie(w, gorilla.NewCookie(v.Name(), visit.token, v.Options))
	return nil
}

// answer sends the client the token that it has from now on. m is nil after a logout.
func (s *Store) answer(ctx context.Context, w http.ResponseWriter, v *gorilla.Session, m *merger) error {
	now, err := s.sessions.Get(ctx)
	if err != nil {
		return err
	}
	token, changed, err := s.sessions.Commit(ctx)
	if err != nil {
		return err
	}
	if changed {
		http.SetCookie(w, gorilla.NewCookie(v.Name(), token, v.Options))
	}
	// What comes later in the request may need yet another token.
	next := s.visit(token)
	if v.ID = now.ID; m != nil {
		m.update(v)
		next.read = m.stored
	}
	s.visits.add(v, next)
	return nil
}
