package gorillastore

import (
	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Options adjusts a Store. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Sessions adjusts the session.Manager below: policies, bounds, hooks. New refuses the fields
	// for which a gorilla store has no use: Cookie, SameSite, InsecureLocalhost, KeepAlive,
	// Passive, RenewEvery and ErrorHandler.
	Sessions session.Options

	// Login says by a session's Values who is logged in: it returns a Login with that User, and
	// the zero Login if nobody is. Save calls it, also with the values that were read; it must not change the session. What else the
	// Login says counts when that user's session begins. How long the browser keeps the cookie is said by
	// MaxAge alone, also with Remember. Nil: nobody is ever logged in, and
	// sessions cannot be listed or revoked by user.
	Login func(s *gorilla.Session) session.Login

	// Merge returns the value of a key that two requests have changed. was is what both have
	// read, stored is what the other request has written, and saved is what this one saves. Nil
	// stands for no value. It may be called again with what yet another request has written.
	// Its error is what Save returns, which then writes nothing. Nil: lists
	// of the type []any, as flash messages are, are merged, and anything else is a
	// *ConflictError.
	Merge func(key, was, stored, saved any) (any, error)
}

// validate returns an error for a field that has no meaning here.
func (o *Options) validate() error {
	s := &o.Sessions
	for _, f := range []struct {
		name string
		set  bool
		rule string
	}{
		{"Cookie", s.Cookie != "", "must be empty: the name is that of gorilla's session"},
		{"SameSite", s.SameSite != 0, "must be zero: set Store.Options.SameSite"},
		{"InsecureLocalhost", s.InsecureLocalhost, "must be false: set Store.Options.Secure"},
		{"KeepAlive", s.KeepAlive, "must be false: there is no middleware"},
		{"Passive", s.Passive != nil, "must be nil: there is no middleware"},
		{"RenewEvery", s.RenewEvery != 0, "must be zero: gorilla's Get cannot send a cookie"},
		{"ErrorHandler", s.ErrorHandler != nil, "must be nil: Get and Save return the error"},
	} {
		if f.set {
			return &slidingttl.InvalidError{Field: "Options.Sessions." + f.name, Value: "set", Rule: f.rule}
		}
	}
	return nil
}
