package gorillastore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Data is what the Manager under a Store keeps of a session. Its content is the Store's.
type Data struct {
	Name   string `json:"name"`             // of the session and its cookie
	Values []byte `json:"values,omitempty"` // encoded by gob

	// TakenBy is the ID of a session that has begun with these values. This one ends.
	TakenBy string `json:"taken_by,omitempty"`
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
	onError  func(context.Context, error)
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
		onError:  o.Sessions.OnError,
	}
	if s.login == nil {
		s.login = func(*gorilla.Session) session.Login { return session.Login{} }
	}
	if s.merge == nil {
		s.merge = mergeLists
	}
	if s.onError == nil {
		logger := cmp.Or(o.Sessions.Logger, slog.Default())
		s.onError = func(ctx context.Context, err error) {
			logger.WarnContext(ctx, "gorillastore: a session that was replaced is still stored", "error", err)
		}
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
		visit.failed = err
		return visit, err
	case now.ID == "":
		return visit, nil
	case now.Data.Name != name, // a client has renamed its cookie
		now.Data.TakenBy != "":
		return s.visit(""), nil
	case now.Renewed: // this token opens nothing, though the Manager would accept it for a while
		return visit, nil
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
// which, but where one is no token, as of another store.
func tokenOf(r *http.Request, name string) string {
	found := slices.DeleteFunc(r.CookiesNamed(name), func(c *http.Cookie) bool { return !isToken(c.Value) })
	if len(found) == 1 {
		return found[0].Value
	}
	return ""
}

// isToken reports whether value has the form of a token.
func isToken(value string) bool {
	b, err := base64.RawURLEncoding.DecodeString(value)
	return err == nil && len(b) == 48
}

// Save implements gorilla's Store. It writes what the request has changed, or ends the session if
// its Options.MaxAge is negative. A new session without Values is not written. A Session that this
// Store's New did not return is saved as a new one, in place of the request's.
//
// Errors: *ConflictError, session.ErrEnded, gob's, one that matches slidingttl.ErrInvalid where
// the values are over Options.Sessions.MaxData or Login says what is not valid, the store's. With
// an error other than slidingttl.ErrAmbiguous no change is written and no cookie is sent, but a Save that
// logs in may have ended the former session.
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
	if now.ID != "" && visit.read == nil && !m.replaces { // a session of its own would take the place of one that was not read
		return cmp.Or(visit.failed, session.ErrEnded)
	}
	names := func(user string) func(values) bool {
		return func(saved values) bool { return s.loginOf(v, saved).User == user }
	}
	login := s.loginOf(v, m.saved)
	m.may = names(login.User)
	same := now.ID != "" && login.User == now.User && !m.replaces
	if same {
		if v.ID != "" {
			err = s.update(ctx, w, v, visit, m)
		} else {
			err = s.sessions.Rotate(ctx, m.apply)
		}
		if v.ID != "" && err != errAnotherUser {
			return err
		}
	} else {
		m.wins = login.User != "" && login.User != s.loginOf(v, m.was).User
	}
	if err == errAnotherUser { // the values of two requests log in, or out, together
		login, same = s.loginOf(v, m.result), false
		m.may = names(login.User)
		if now, err = s.sessions.Refresh(ctx); err != nil {
			return err
		}
		if now.ID == "" || now.Data.TakenBy != "" {
			return session.ErrEnded
		}
	}
	switch {
	case same:
	case now.ID == "" && len(v.Values) == 0:
		return nil
	case now.ID != "" && (login.User == "" || login.User == s.loginOf(v, m.was).User):
		ctx, err = s.replace(r, visit, now.Data, login, m)
	case login.User != "":
		err = s.sessions.Login(ctx, login, m.apply)
	default:
		err = s.sessions.Update(ctx, m.apply)
	}
	if err == errAnotherUser { // than the merged values do, or by what yet another request has saved
		err = &ConflictError{}
	}
	if err != nil {
		return err
	}
	return s.answer(ctx, w, v, m)
}

// loginOf returns who is logged in by v with these values.
func (s *Store) loginOf(v *gorilla.Session, of values) session.Login {
	with := *v
	with.Values = of
	return s.login(&with)
}

// errChanged says that another request has written the session whose values are to be taken.
var errChanged = errors.New("changed")

// replace begins a session in place of the request's, with the values of that, and returns the
// context to answer with. The new one has them all before a compare-and-swap takes the former from its
// clients. So what has ended goes on in no other session, and a failure leaves the former one as it is.
func (s *Store) replace(r *http.Request, visit *visit, was Data, login session.Login, m *merger) (context.Context, error) {
	ctx, next := visit.context(r), s.visit("").context(r)
	begin := func(d *Data) error {
		*d = Data{Name: m.name, Values: m.stored}
		return nil
	}
	from := was.Values
	err := m.apply(&was)
	if err == nil && login.User != "" {
		err = s.sessions.Login(next, login, begin)
	} else if err == nil {
		err = s.sessions.Update(next, begin)
	}
	if err != nil {
		return nil, err
	}
	now, err := s.sessions.Get(next)
	take := func(d *Data) error {
		switch {
		case d.TakenBy == now.ID: // the answer to this write was lost
			return nil
		case d.Name == "", d.TakenBy != "":
			return session.ErrEnded
		case bytes.Equal(d.Values, from):
			d.TakenBy = now.ID
			return nil
		}
		from = d.Values
		if err := m.apply(d); err != nil {
			return err
		}
		return errChanged
	}
	for err == nil {
		if err = s.sessions.Update(ctx, take); errors.Is(err, slidingttl.ErrAmbiguous) {
			aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			if again := s.sessions.Update(aside, take); again == nil || again == errChanged || again == session.ErrEnded {
				err = again
			}
			cancel()
		}
		if err == nil {
			s.survived(ctx, s.sessions.Destroy(ctx)) // it opens to nobody already
			return next, nil
		}
		if err == errChanged {
			if err = s.sessions.Update(next, begin); err == nil {
				_, err = s.sessions.Refresh(ctx)
			}
		}
	}
	s.survived(ctx, s.sessions.Destroy(next)) // nobody has its token
	return nil, err
}

// survived reports a failure that no caller learns of.
func (s *Store) survived(ctx context.Context, err error) {
	if err != nil {
		s.onError(ctx, err)
	}
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
	outlived := age > 0 && (now.AbsoluteExpiry.IsZero() || age < now.AbsoluteExpiry.Sub(now.CreatedAt))
	if *v.Options == *s.Options && !outlived {
		return nil
	}
	if unchanged { // a login elsewhere may have given the client another cookie
		if now, err = s.sessions.Refresh(ctx); err != nil {
			return err
		}
		if now.ID == "" || now.Data.TakenBy != "" {
			return session.ErrEnded
		}
	}
	if !now.Renewed {
		http.SetCookie(w, gorilla.NewCookie(v.Name(), visit.token, v.Options))
	}
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
