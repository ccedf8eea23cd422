package gorillastore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// eachSave is what a Save of ann's session is to do, whose "n" is 1 and "cart" is "egg".
var eachSave = map[string]func(s *gorilla.Session){
	"renewal":             renew,
	"renewal and change":  func(s *gorilla.Session) { s.ID = ""; s.Values["n"] = 2 },
	"change":              func(s *gorilla.Session) { s.Values["n"] = 2 },
	"removal of the user": func(s *gorilla.Session) { delete(s.Values, "user"); s.Values["n"] = 2 },
	"adoption":            func(s *gorilla.Session) { s.Values["n"] = 2 },
}

// eachCall runs before at each call, one at a time, that a Save of each kind makes of the store, and
// hands over what is then so.
func eachCall(t *testing.T, before func(other *browser) error, after func(save string, at int, b, other *browser, err error)) {
	for save, change := range eachSave {
		fired := true
		for at := 1; fired; at++ {
			fired = false
			opts := &gorillastore.Options{Sessions: session.Options{OnError: func(context.Context, error) {}}}
			run(t, opts, func(t *testing.T, a *site) {
				begun := a
				if save == "adoption" {
					old, err := gorillastore.New(a.d, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer old.Sessions().Close(context.Background())
					begun = &site{t: t, d: a.d, store: old}
				}
				first := begun.browser()
				if err := first.do(func(s *gorilla.Session) {
					s.Values["user"], s.Values["n"], s.Values["cart"] = "ann", 1, "egg"
				}); err != nil {
					t.Fatal(err)
				}
				b := a.browser()
				b.cookies = first.cookies
				other := b.like()
				other.site = begun
				q := b.request()
				s := q.get()
				change(s)
				n := 0
				a.d.before = func() {
					if n++; n == at {
						fired = true
						a.d.fails = before(other)
					}
				}
				err := s.Save(q.r, q.w)
				a.d.before, a.d.fails = nil, nil
				if q.answer(); err != nil && len(b.sent) > 0 {
					t.Errorf("%s, call %d: %v, and cookies %v", save, at, err, b.sent)
				}
				if fired {
					after(save, at, b, other, err)
				}
			})
		}
	}
}

// TestSaveAtEachCall: what another request saves meanwhile is not lost.
func TestSaveAtEachCall(t *testing.T) {
	for what, set := range map[string]func(s *gorilla.Session){
		"another value":  func(s *gorilla.Session) { s.Values["m"] = 1 },
		"the same value": func(s *gorilla.Session) { s.Values["n"] = 7 },
	} {
		var saved error
		eachCall(t, func(other *browser) error {
			saved = other.do(set)
			return nil
		}, func(save string, at int, b, other *browser, err error) {
			v := b.request().get().Values
			wrong := v["cart"] != "egg"
			switch {
			case saved != nil || len(other.sent) > 0: // the session had ended: the other request got an error, or a session of its own
			case what == "another value":
				wrong = wrong || err != nil || v["m"] != 1 || (v["n"] == 2) != (save != "renewal")
			default:
				wrong = wrong || v["n"] != 7 || err != nil && !errors.Is(err, slidingttl.ErrConflict)
			}
			if wrong {
				b.t.Errorf("%s at call %d of a %s: Save %v, and the client has %v", what, at, save, err, v)
			}
		})
	}
}

// TestFailureAtEachCall: a Save that fails changes nothing, whichever call fails, and whether or not the
// call was done.
func TestFailureAtEachCall(t *testing.T) {
	for _, fails := range []error{errors.New("throttled"), errAnswerLost} {
		eachCall(t, func(*browser) error { return fails }, func(save string, at int, b, _ *browser, err error) {
			v := b.request().get().Values
			want, user := 1, any("ann")
			if err == nil {
				if save != "renewal" {
					want = 2
				}
				if save == "removal of the user" {
					user = nil
				}
			}
			if errors.Is(err, slidingttl.ErrAmbiguous) && v["n"] == 2 {
				want = 2
			}
			if v["cart"] != "egg" || v["n"] != want || v["user"] != user {
				b.t.Errorf("%v at call %d of a %s: Save %v, and the client has %v", fails, at, save, err, v)
			}
		})
	}
}

var errAnswerLost = fmt.Errorf("the answer is lost: %w", driver.ErrAmbiguous)
