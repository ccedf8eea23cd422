package scsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/alexedwards/scs/v2/memstore"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestJudgeIterate runs an end of a session at each call that an Iterate makes which changes or ends the session, and within
// its function, for a session that is here, has not moved, or has moved half-way: what has ended stays so, no change is lost
// without an error, and what Iterate has for a token opens nothing.
func TestJudgeIterate(t *testing.T) {
	whole := func(call func() error) error { return call() }
	stages := map[string]int{"not moved": 0, "copied": 2, "checked": 4, "not deleted there": 5, "moved": 6} // calls of its move that are made
	ends := map[string]func(a *app, ctx context.Context){
		"nothing": func(a *app, ctx context.Context) {},
		"read":    func(a *app, ctx context.Context) { a.sessions.GetString(ctx, "user") },
		"destroy": func(a *app, ctx context.Context) { _ = a.sessions.Destroy(ctx) },
		"renew":   func(a *app, ctx context.Context) { _ = a.sessions.RenewToken(ctx) },
	}
	for stage, calls := range stages {
		for end, meanwhile := range ends {
			for _, destroys := range []bool{false, true} {
				for at, last := 0, 1; at <= last; at++ {
					former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
					runOver(t, former, func(t *testing.T, a *app) {
						what := fmt.Sprintf("%s, %s at call %d, Iterate destroys %v", stage, end, at, destroys)
						a.onScs(former.MemStore)
						shown := a.cookie
						n := 0
						former.fault = func(call func() error) error {
							if n++; n > calls {
								return errors.New("the process has died")
							}
							return call()
						}
						a.store.fault = former.fault
						_, token, _ := strings.Cut(shown, "=")
						_, _, _ = a.kept.Find(token)

						other, code := a.browserWith(shown), 0
						n = 0
						step := func() {
							if n++; n-1 == at {
								former.fault, a.store.fault = whole, whole
								code = other.do(func(ctx context.Context) { meanwhile(other, ctx) })
							}
						}
						former.fault = func(call func() error) error { step(); return call() }
						a.store.fault = former.fault
						seen := ""
						err := a.sessions.Iterate(context.Background(), func(ctx context.Context) error {
							step()
							seen = a.sessions.Token(ctx)
							if destroys {
								return a.sessions.Destroy(ctx)
							}
							a.sessions.Put(ctx, "notice", "new terms")
							_, _, err := a.sessions.Commit(ctx)
							return err
						})
						former.fault, a.store.fault = nil, nil
						last = n - 1

						if err != nil && (code != http.StatusOK || !errors.Is(err, slidingttl.ErrNotFound)) {
							t.Errorf("%s: %v", what, err)
						}
						gone := code == http.StatusOK && (end == "destroy" || end == "renew") || err == nil && destroys
						user, notice := "ann", "new terms"
						if gone || destroys {
							notice = ""
						}
						if gone {
							user = ""
						}
						a.browserWith(shown).want("user", user, what)
						a.browserWith(shown).want("notice", notice, what)
						a.browserWith("session="+seen).want("user", "", what+": what Iterate has for a token")
						if left, _ := former.All(); len(left) != 0 {
							t.Errorf("%s: %d sessions left in the former store", what, len(left))
						}
					})
				}
			}
		}
	}
}
