package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// A user's sessions are listed and ended without the service's policies, also those that the default
// policies would call dead.
func TestSessions(t *testing.T) {
	for name, open := range keyspaces {
		t.Run(name, func(t *testing.T) {
			k := open(t)
			s := must(new(target).open(t.Context(), k.uri, true))(t)
			defer s.close()
			month := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
			login := func(user string, ago time.Duration) (token string) {
				t.Helper()
				m := must(session.New[struct{ N int }](must(s.sessions())(t), &session.Options{
					KeyPrefix: "web:", Policy: month, Now: func() time.Time { return time.Now().Add(-ago) },
				}))(t)
				defer func() { _ = m.Close(t.Context()) }()
				ctx := m.Load(t.Context(), "")
				if err := m.Login(ctx, session.Login{User: user, Label: "a\nphone"}, nil); err != nil {
					t.Fatal(err)
				}
				token, _, err := m.Commit(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return token
			}
			tokens := []string{login("ada", 20*24*time.Hour), login("ada", time.Hour), login("ada", 0), login("bob", 0)}
			live := func() (n int) {
				m := must(session.New[struct{ N int }](must(s.sessions())(t), &session.Options{KeyPrefix: "web:", Policy: month}))(t)
				defer func() { _ = m.Close(t.Context()) }()
				for _, token := range tokens {
					if got, err := m.Get(m.Load(t.Context(), token)); err != nil {
						t.Fatal(err)
					} else if got.User != "" {
						n++
					}
				}
				return n
			}
			does := func(what string, args ...string) (u userSessions) {
				t.Helper()
				out, _ := command(t, 0, append([]string{"sessions", k.uri, what, "--key-prefix", "web:", "--json"}, args...)...)
				if err := json.Unmarshal([]byte(out), &u); err != nil {
					t.Fatal(err)
				}
				return u
			}
			ada := does("list", "--user", "ada").Sessions
			if len(ada) != 3 || len(does("list", "--user", "nobody").Sessions) != 0 {
				t.Fatalf("ada's sessions are %+v", ada)
			}
			if r := does("revoke", "--user", "ada"); len(r.Sessions) != 3 || r.Revoked || live() != 4 {
				t.Errorf("a dry run: %+v, and %d live", r, live())
			}
			out, _ := command(t, 0, "sessions", k.uri, "list", "--user", "ada", "--key-prefix", "web:")
			contains(t, out, "3 sessions", `, "a\nphone"`)
			last := ada[0].ID // the ones before were seen earlier
			_, errs := command(t, exitUsage, "sessions", k.uri, "revoke", "--key-prefix", "web:", "--user", "ada", "--except", last+"x", "--apply")
			contains(t, errs, "is no session of this user")
			if r := does("revoke", "--user", "ada", "--except", last, "--apply"); len(r.Sessions) != 2 || !r.Revoked || live() != 2 {
				t.Errorf("all but one: %+v, and %d live", r, live())
			}
			if r := does("revoke", "--user", "ada", "--apply"); len(r.Sessions) != 1 || !r.Revoked || live() != 1 {
				t.Errorf("all: %+v, and %d live", r, live())
			}
			if left := does("list", "--user", "ada").Sessions; len(left) != 0 {
				t.Errorf("there are left %+v", left)
			}
		})
	}
	_, uri := sessionsIn(t, 1)
	for _, args := range [][]string{{"list"}, {"list", "--user", ""}, {"ls", "--user", "ada"}, {"list", "--user", "ada", "--apply"}} {
		command(t, exitUsage, append([]string{"sessions", uri}, args...)...)
	}
}
