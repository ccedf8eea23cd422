package gorillastore_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const (
	judgeSteps = 4000      // some hours
	judgeCap   = time.Hour // of each session, whatever is done with it
)

var worldsFlag = flag.Uint64("gorilla.worlds", 2, "worlds of TestJudge")

// told is what the judge knows of a session that a token opened.
type told struct {
	token  string // which opens it now
	began  time.Time
	user   string
	values map[any]any // as the store must have them
	ended  bool
}

func (k *told) over() bool { return k.ended || time.Since(k.began) >= judgeCap }

// underWay is a request that has read its session and not saved it.
type underWay struct {
	*request
	s     *gorilla.Session
	of    *told // nil: it had none
	token string
	read  map[any]any
}

// TestJudge runs random requests of a few clients, which overlap, and compares what each sees with
// what was saved: no change is lost, none comes back, and no session opens after its end, by a
// former token, or after the absolute timeout.
func TestJudge(t *testing.T) {
	for seed := range *worldsFlag {
		run(t, &gorillastore.Options{Sessions: session.Options{
			Policy: slidingttl.Policy{IdleGrace: judgeCap, MaxLifetime: judgeCap, Slack: time.Minute},
		}}, func(t *testing.T, a *site) { judge(t, a, rand.New(rand.NewPCG(36, seed))) })
	}
}

func judge(t *testing.T, a *site, random *rand.Rand) {
	tokens := map[string]*told{} // each that was ever given out
	var clients []*browser
	for range 4 {
		clients = append(clients, a.browser())
	}
	users, keys := []string{"ann", "bob"}, []string{"k1", "k2", "k3"}
	var open []*underWay
	saves, conflicts, late, renewals, lateRenewals := 0, 0, 0, 0, 0
	for range judgeSteps {
		switch which := random.IntN(20); {
		case which == 0 && random.IntN(4) == 0:
			user := users[random.IntN(2)]
			if err := a.store.Sessions().RevokeAll(t.Context(), user); err != nil {
				t.Fatal(err)
			}
			for _, k := range tokens {
				k.ended = k.ended || k.user == user
			}
		case which == 1:
			time.Sleep(time.Duration(random.IntN(120)) * time.Second)
		case which == 2: // a cookie is copied
			from, to := random.IntN(4), random.IntN(4)
			clients[to].cookies = clients[from].like().cookies
		case which < 10 || len(open) == 0:
			q := &underWay{request: clients[random.IntN(4)].request()}
			q.token = q.b.cookies[name]
			q.of = tokens[q.token]
			if q.of != nil && (q.of.over() || q.of.token != q.token) {
				q.of = nil
			}
			q.s = q.get()
			q.read = map[any]any{}
			if q.of != nil {
				for key, v := range q.of.values {
					q.read[key] = v
				}
			}
			if !reflect.DeepEqual(q.s.Values, q.read) || q.s.IsNew != (q.of == nil) {
				t.Fatalf("a request sees %v, and is to see %v", q.s.Values, q.read)
			}
			open = append(open, q)
		default:
			i := random.IntN(len(open))
			q := open[i]
			open = append(open[:i], open[i+1:]...)
			saves++
			end := random.IntN(12) == 0
			changes, renews := map[any]any{}, false
			switch {
			case random.IntN(8) == 0 && q.of != nil && !end:
				renews = true
				q.s.ID = ""
				if key := keys[random.IntN(3)]; random.IntN(2) == 0 {
					n, _ := q.read[key].(int)
					changes[key] = n + 1
				}
			case end:
				q.s.Options.MaxAge = -1
			case random.IntN(6) == 0:
				changes["user"] = users[random.IntN(2)]
			case random.IntN(12) == 0:
				changes["user"] = nil
			default:
				for range random.IntN(3) {
					key := keys[random.IntN(3)]
					n, _ := q.read[key].(int)
					changes[key] = n + 1
				}
			}
			for key, v := range changes {
				if q.s.Values[key] = v; v == nil {
					delete(q.s.Values, key)
				}
				if reflect.DeepEqual(q.read[key], v) {
					delete(changes, key)
				}
			}
			to, switches := changes["user"]
			before := q.b.cookies[name]
			err := q.s.Save(q.r, q.w)
			had := q.of
			switch {
			case renews && (had.over() || had.token != q.token):
				lateRenewals++
				if !errors.Is(err, session.ErrEnded) || len(q.sent()) > 0 {
					t.Fatalf("a new token for a session that has ended, or has one: %v, cookies %v", err, q.sent())
				}
				continue
			case had != nil && had.over():
				// It ended while the request was under way.
				late++
				if end || len(changes) == 0 {
					if err != nil {
						t.Fatalf("a late Save that changes nothing: %v", err)
					}
				} else if to == nil && !errors.Is(err, session.ErrEnded) {
					t.Fatalf("a late Save: %v", err)
				}
				if err != nil || to == nil {
					if len(q.sent()) > 0 && !end {
						t.Fatal("a late Save sent a cookie")
					}
					continue
				}
			case end:
				if err != nil {
					t.Fatal(err)
				}
				if had != nil {
					had.ended = true
				} else if k := tokens[q.token]; k != nil && k.token != q.token {
					probe := a.browser() // for a short time a former token may log out
					probe.cookies[name] = k.token
					k.ended = k.ended || probe.request().get().IsNew
				}
			case switches && to == nil:
				want := maps.Clone(had.values)
				delete(want, "user")
				for key, v := range changes {
					if key != "user" {
						want[key] = v
					}
				}
				if err != nil || len(q.sent()) == 0 || !reflect.DeepEqual(q.s.Values, want) {
					t.Fatalf("a logout that keeps the session: %v, %v; want %v", err, q.s.Values, want)
				}
			case had != nil && !switches:
				conflict := false
				for key := range changes {
					conflict = conflict || !reflect.DeepEqual(had.values[key], q.read[key])
				}
				if conflict != errors.Is(err, slidingttl.ErrConflict) || !conflict && err != nil {
					t.Fatalf("a conflict %v, and Save says %v", conflict, err)
				}
				if renews && !conflict {
					renewals++
					q.answer()
					given := q.b.cookies[name]
					if len(q.b.sent) != 1 || tokens[given] != nil {
						t.Fatalf("no new token: %v", q.b.sent)
					}
					tokens[given], had.token = had, given
				} else if len(q.sent()) > 0 {
					t.Fatalf("cookies %v", q.sent())
				}
				if conflict {
					conflicts++
					continue
				}
				for key, v := range changes {
					had.values[key] = v
				}
				if len(changes) > 0 && !reflect.DeepEqual(q.s.Values, had.values) {
					t.Fatalf("after Save %v, want %v", q.s.Values, had.values)
				}
				if renews {
					continue
				}
			case errors.Is(err, session.ErrEnded) && had == nil && tokens[q.token] != nil:
				late++ // for a short time after a login its former token begins no session
				continue
			case err != nil:
				t.Fatal(err)
			}
			if end {
				continue // the client that shows the token later is told what it opens
			}
			q.answer()
			if given := q.b.cookies[name]; given != before && len(q.b.sent) > 0 {
				k := &told{token: given, began: time.Now(), values: map[any]any{}}
				for key, v := range q.s.Values {
					k.values[key] = v
				}
				k.user, _ = k.values["user"].(string)
				if known := tokens[given]; known != nil {
					k = known // a login that was submitted twice
					for key, v := range q.s.Values {
						k.values[key] = v
					}
				}
				tokens[given] = k
				if had != nil {
					had.ended = true
				}
			}
		}
	}
	t.Logf("%d saves, %d conflicts, %d late, %d renewals, %d late ones", saves, conflicts, late, renewals, lateRenewals)
	if conflicts == 0 || late == 0 || renewals == 0 || lateRenewals == 0 {
		t.Error("nothing was judged")
	}
}

// TestJudgeUsers: of whatever values overlapping requests save, each session is on the list of the user whom its
// values name and on no other's, a token never changes its user, and RevokeAll leaves nobody logged in.
func TestJudgeUsers(t *testing.T) {
	value := func(s *gorilla.Session, key string) string { v, _ := s.Values[key].(string); return v }
	logins := []func(s *gorilla.Session) session.Login{
		func(s *gorilla.Session) session.Login {
			return session.Login{User: cmp.Or(value(s, "user"), value(s, "sso"))}
		},
		func(s *gorilla.Session) session.Login {
			return session.Login{User: value(s, "user") + value(s, "sso")}
		},
		func(s *gorilla.Session) session.Login {
			if value(s, "sso") == "" {
				return session.Login{}
			}
			return session.Login{User: value(s, "user")}
		},
	}
	switched := 0
	for seed := range *worldsFlag + 1 {
		login := logins[seed%3]
		run(t, &gorillastore.Options{Login: login}, func(t *testing.T, a *site) {
			switched += judgeUsers(t, a, login, rand.New(rand.NewPCG(36, seed)))
		})
	}
	if switched == 0 {
		t.Error("nothing was judged")
	}
}

// judgeUsers returns how many Saves were merged to the values of another user than their request had read.
func judgeUsers(t *testing.T, a *site, login func(s *gorilla.Session) session.Login, random *rand.Rand) (switched int) {
	var clients []*browser
	for range 3 {
		clients = append(clients, a.browser())
	}
	names, whose := []string{"", "ann", "bob"}, map[string]string{} // by token
	users := map[string]bool{}
	check := func(why string) {
		for _, c := range clients {
			s, token := c.request().get(), c.cookies[name]
			user := login(s).User
			users[user] = true
			if was, seen := whose[token]; !s.IsNew && seen && was != user {
				t.Fatalf("after %s a token of %q opens to %q", why, was, user)
			}
			if !s.IsNew {
				whose[token] = user
			}
			for of := range users {
				if of == "" {
					continue
				}
				list, err := a.store.Sessions().List(t.Context(), of)
				if err != nil {
					t.Fatal(err)
				}
				on := slices.ContainsFunc(list, func(i session.Info) bool { return i.ID == s.ID })
				if on != (of == user) {
					t.Fatalf("after %s a session of %q, with %v, is on the list of %q: %v", why, user, s.Values, of, on)
				}
			}
		}
	}
	var open []*underWay
	saved, merged := 0, 0
	for range judgeSteps / 4 {
		switch which := random.IntN(12); {
		case which == 0 && random.IntN(4) == 0:
			for user := range users {
				if user == "" {
					continue
				}
				if err := a.store.Sessions().RevokeAll(t.Context(), user); err != nil {
					t.Fatal(err)
				}
				for _, c := range clients {
					if now := login(c.request().get()).User; now == user {
						t.Fatalf("after RevokeAll of %q a client is logged in as that", user)
					}
				}
			}
		case which == 1:
			time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		case which < 7 || len(open) == 0:
			q := &underWay{request: clients[random.IntN(len(clients))].request()}
			q.s = q.get()
			q.read = maps.Clone(q.s.Values)
			open = append(open, q)
		default:
			i := random.IntN(len(open))
			q := open[i]
			open = append(open[:i], open[i+1:]...)
			was := login(q.s).User
			for range 1 + random.IntN(2) {
				key := []string{"user", "sso", "x"}[random.IntN(3)]
				if q.s.Values[key] = names[random.IntN(3)]; q.s.Values[key] == "" {
					delete(q.s.Values, key)
				}
			}
			if !q.s.IsNew && random.IntN(6) == 0 {
				q.s.ID = ""
			}
			own := maps.Clone(q.s.Values)
			err := q.s.Save(q.r, q.w)
			if err != nil && !errors.Is(err, session.ErrEnded) && !errors.Is(err, slidingttl.ErrConflict) {
				t.Fatal(err)
			}
			if err == nil {
				saved++
			}
			if err == nil && !maps.Equal(own, q.s.Values) {
				if merged++; login(q.s).User != was {
					switched++
				}
			}
			q.answer()
			check(fmt.Sprintf("%v of %v, err %v,", own, q.read, err))
		}
	}
	t.Logf("%d saves, %d merged, %d of them into another user's", saved, merged, switched)
	return switched
}
