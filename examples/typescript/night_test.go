//go:build night

package typescript

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type session struct {
	V string `json:"v" dynamodbav:"v"`
}

const keys = 8

// event is an access, or one of the calls that only the Go program makes.
type event struct {
	Key          string
	Began, Ended int64 // milliseconds
	Created      int64 // zero: not found
	Value        string
	Failed       string // the touch failed, so the access promises nothing
	does         string // "insert", "end", or empty for an access
}

// TestBeside has a Go program and the TypeScript access the same keys. Both keep them alive, what died or
// was ended is never back, and no life is cut short.
func TestBeside(t *testing.T) {
	redisAddr, endpoint, table := servers(t)
	for name, c := range map[string]struct {
		policy  slidingttl.Policy
		address string
		lasts   time.Duration
		open    func(t *testing.T) driver.Driver[session]
	}{
		"redis": {slidingttl.Policy{IdleGrace: 500 * time.Millisecond, MaxLifetime: 3 * time.Second}, portOf(t, redisAddr), 20 * time.Second, func(t *testing.T) driver.Driver[session] {
			d, err := redis.New[session]((&redistest.Server{Addr: redisAddr}).Client(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}},
		"dynamodb": {slidingttl.Policy{IdleGrace: 3 * time.Second, MaxLifetime: 15 * time.Second, Slack: time.Second}, endpoint, time.Minute, func(t *testing.T) driver.Driver[session] {
			d, err := dynamodb.New[session]((&dynamodbtest.Server{Endpoint: endpoint}).Client(), table, &dynamodb.Options{ConsistentRead: true})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.open(t)
			policy := fmt.Sprintf(`{"idle":%d,"max":%d,"slack":%d}`, c.policy.IdleGrace.Milliseconds(), c.policy.MaxLifetime.Milliseconds(), c.policy.Slack.Milliseconds())
			cmd := exec.CommandContext(t.Context(), "node", "dist/worker.js", name, c.address, table, policy, fmt.Sprint(keys))
			in, err1 := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			if err := errors.Join(err1, err2, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			var theirs []event
			read := make(chan error, 1)
			go func() {
				var err error
				for lines := bufio.NewScanner(out); err == nil && lines.Scan(); {
					var e event
					err = json.Unmarshal(lines.Bytes(), &e)
					theirs = append(theirs, e)
				}
				read <- err
			}()
			ours := accesses(t, d, c.policy, c.lasts)
			if err := errors.Join(in.Close(), <-read, cmd.Wait()); err != nil {
				t.Fatal(err)
			}
			found, missed := 0, 0
			for _, e := range theirs {
				if e.Failed != "" {
					t.Errorf("a touch of %s failed: %s", e.Key, e.Failed)
				}
				if e.Created != 0 {
					found++
				} else {
					missed++
				}
			}
			t.Logf("%d accesses by Go; by TypeScript %d found a record and %d none", len(ours), found, missed)
			if found < 100 || missed < 100 {
				t.Error("these are too few to tell")
			}
			judge(t, append(ours, theirs...), c.policy, d.Resolution())
		})
	}
}

// accesses is the Go program: it reads keys, inserts those that have died, and ends some.
func accesses(t *testing.T, d driver.Driver[session], p slidingttl.Policy, lasts time.Duration) (all []event) {
	store, err := slidingttl.New(d, p, &slidingttl.Options[session]{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var mu sync.Mutex // guards all
	note := func(e event, began time.Time) {
		e.Began, e.Ended = began.UnixMilli(), time.Now().UnixMilli()
		mu.Lock()
		all = append(all, e)
		mu.Unlock()
	}
	var wg sync.WaitGroup
	for first := range 2 { // each has every second key, so that one goroutine inserts and ends it
		wg.Go(func() {
			for until := time.Now().Add(lasts); time.Now().Before(until); {
				began := time.Now()
				key := fmt.Sprintf("k%d", rand.IntN(keys/2)*2+first)
				resting := began.UnixMilli()/(4*p.IdleGrace.Milliseconds())%2 != int64(first)
				e, err := store.Peek(ctx, key)
				switch {
				case errors.Is(err, slidingttl.ErrNotFound):
					if e, err = store.InsertEntry(ctx, key, session{fmt.Sprint(key, "-", began.UnixNano())}); err == nil {
						note(event{Key: key, Created: int64(e.CreatedAt), Value: e.Value.V, does: "insert"}, began)
					}
				case err != nil:
				case rand.IntN(100) == 0:
					end := store.Retire
					if rand.IntN(2) == 0 {
						end = store.Delete
					}
					if err = end(ctx, key); err == nil {
						note(event{Key: key, Created: int64(e.CreatedAt), does: "end"}, began)
					}
				case !resting:
					began = time.Now()
					if e, err = store.Entry(ctx, key); err == nil {
						note(event{Key: key, Created: int64(e.CreatedAt), Value: e.Value.V}, began)
					} else if errors.Is(err, slidingttl.ErrNotFound) {
						note(event{Key: key}, began)
					}
				}
				if err != nil && !errors.Is(err, slidingttl.ErrNotFound) {
					t.Errorf("%s: %v", key, err)
				}
				_ = driver.Sleep(ctx, time.Duration(rand.IntN(10))*time.Millisecond)
			}
		})
	}
	wg.Wait()
	if err := store.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return all
}

// judge is the oracle of the promises: what was found lived, and what was not found did not.
func judge(t *testing.T, all []event, p slidingttl.Policy, step time.Duration) {
	idle, slack, most, r := p.IdleGrace.Milliseconds(), p.Slack.Milliseconds(), p.MaxLifetime.Milliseconds(), step.Milliseconds()
	type life struct {
		key     string
		created int64
	}
	lives, byKey := make(map[life][]event), make(map[string][]life)
	inserted, ended := make(map[life]event), make(map[life]event)
	for _, e := range all {
		l := life{e.Key, e.Created}
		switch {
		case e.does == "end":
			ended[l] = e
			continue
		case e.does == "insert":
			inserted[l] = e
			byKey[e.Key] = append(byKey[e.Key], l)
		}
		if e.Created != 0 {
			lives[l] = append(lives[l], e)
		}
	}
	wrong := func(e event, format string, args ...any) {
		t.Errorf("%s of life %d, from %d to %d: %s", e.Key, e.Created, e.Began, e.Ended, fmt.Sprintf(format, args...))
	}
	for _, e := range all {
		l := life{e.Key, e.Created}
		end, isEnded := ended[l]
		switch {
		case e.does != "":
		case e.Created == 0:
			for _, l := range byKey[e.Key] {
				end, isEnded := ended[l]
				if isEnded && end.Began <= e.Ended || inserted[l].Ended >= e.Began {
					continue
				}
				for _, kept := range lives[l] {
					if until := min(kept.Began+idle, l.created+most); kept.Failed == "" && kept.Ended < e.Began && until > e.Ended {
						wrong(e, "not found, and life %d was kept until %d by the access from %d to %d", l.created, until, kept.Began, kept.Ended)
					}
				}
			}
		case inserted[l].Value != e.Value:
			wrong(e, "it has the value %q, inserted was %q", e.Value, inserted[l].Value)
		case isEnded && e.Began > end.Ended:
			wrong(e, "found after its end by %d", end.Ended)
		case e.Began >= l.created+most:
			wrong(e, "found past its cap")
		default:
			alive := int64(0)
			for _, kept := range lives[l] {
				if kept != e && kept.Began <= e.Ended {
					alive = max(alive, kept.Ended+idle+slack+r)
				}
			}
			if e.Began > alive {
				wrong(e, "found after its expiry, at most %d", alive)
			}
		}
	}
}
