package gorillastore_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const judgeSteps = 4000 // some hours, which a session lives

var worldsFlag = flag.Uint64("gorilla.worlds", 2, "worlds of TestJudge")

// told is what the judge knows of a session that a token opened.
type told struct {
	user   string
	values map[any]any // as the store must have them
	ended  bool
}

// underWay is a request that has read its session and not saved it.
type underWay struct {
	*request
	s     *gorilla.Session
	of    *told // nil: it had none
	token string
	read  map[any]any
}

// TestJudge runs random requests of a few clients, which overlap, and compares what each sees with
// what was saved: no change is lost, none comes back, and no session opens after its end.
func TestJudge(t *testing.T) {
	for seed := range *worldsFlag {
		run(t, nil, func(t *testing.T, a *site) { judge(t, a, rand.New(rand.NewPCG(36, seed))) })
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
	saves, conflicts, late := 0, 0, 0
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
			time.Sleep(time.Duration(random.IntN(120)) * time.Second) // all stay alive
		case which == 2: // a cookie is copied
			from, to := random.IntN(4), random.IntN(4)
			clients[to].cookies = clients[from].like().cookies
		case which < 10 || len(open) == 0:
			q := &underWay{request: clients[random.IntN(4)].request()}
			q.token = q.b.cookies[name]
			q.of = tokens[q.token]
			if q.of != nil && q.of.ended {
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
			case random.IntN(15) == 0 && q.of != nil && !q.of.ended && !end:
				renews = true
				q.s.ID = ""
			case end:
				q.s.Options.MaxAge = -1
			case random.IntN(6) == 0:
				changes["user"] = users[random.IntN(2)]
			default:
				for range random.IntN(3) {
					key := keys[random.IntN(3)]
					n, _ := q.read[key].(int)
					changes[key] = n + 1
				}
			}
			for key, v := range changes {
				q.s.Values[key] = v
				if reflect.DeepEqual(q.read[key], v) {
					delete(changes, key)
				}
			}
			before := q.b.cookies[name]
			err := q.s.Save(q.r, q.w)
			had := q.of
			switch {
			case had != nil && had.ended:
				// It ended while the request was under way.
				late++
				if end || len(changes) == 0 {
					if err != nil {
						t.Fatalf("a late Save that changes nothing: %v", err)
					}
				} else if changes["user"] == nil && !errors.Is(err, session.ErrEnded) {
					t.Fatalf("a late Save: %v", err)
				}
				if err != nil || changes["user"] == nil {
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
				}
			case renews:
				if err != nil || len(q.sent()) == 0 || !reflect.DeepEqual(q.s.Values, had.values) {
					t.Fatalf("a new token: %v, %v; the values were %v", err, q.s.Values, had.values)
				}
			case had != nil && changes["user"] == nil:
				conflict := false
				for key := range changes {
					conflict = conflict || !reflect.DeepEqual(had.values[key], q.read[key])
				}
				if conflict != errors.Is(err, slidingttl.ErrConflict) || !conflict && err != nil {
					t.Fatalf("a conflict %v, and Save says %v", conflict, err)
				}
				if conflict {
					conflicts++
					continue
				}
				for key, v := range changes {
					had.values[key] = v
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
				k := &told{values: map[any]any{}}
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
	t.Logf("%d saves, %d conflicts, %d late", saves, conflicts, late)
	if conflicts == 0 || late == 0 {
		t.Error("nothing was judged")
	}
}
