//go:build night

package releases

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// This file is built in the tree of a release before as well, and uses what both have.

// counter is what the programs store.
type counter struct {
	Count int `json:"count" dynamodbav:"count"`
}

// A job is what a program does.
type job struct {
	Store   string // "redis", "postgres" or "dynamodb"
	Address string
	Seconds float64 // how long it reads and writes
	Slack   time.Duration
}

// A report is what came of it.
type report struct {
	Added map[string]int            // updates that were acknowledged
	Read  map[string]int            // counts read at the end
	Born  map[string]driver.Instant // created_at read at the end
	Calls int
	Wrong []string
}

// keys are few, so that programs meet on them.
var keys = []string{"a", "b", "c", "d", "e", "f"}

// grace is so long that no machine can be too slow to keep records alive.
const grace = 2 * time.Minute

// skew is how far the clock of a driver may be off the process's.
const skew = time.Second

// asProgram holds the job of a process that is a program and no test.
const asProgram = "SLIDINGTTL_RELEASES_JOB"

func TestMain(m *testing.M) {
	if text := os.Getenv(asProgram); text != "" {
		var j job
		err := json.Unmarshal([]byte(text), &j)
		if err == nil {
			var r *report
			if r, err = j.run(context.Background()); err == nil {
				err = json.NewEncoder(os.Stdout).Encode(r)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(dynamodbtest.Main(servers{m}))
}

// servers are those of both kinds: each package's Main stops its own.
type servers struct{ m *testing.M }

func (s servers) Run() int { return sqltest.Main(s.m) }

// open makes the table, where there is none, and a driver over it.
func (j job) open(ctx context.Context) (driver.Driver[counter], error) {
	switch j.Store {
	case "redis":
		client, err := rueidis.NewClient((&redistest.Server{Addr: j.Address}).Option())
		if err != nil {
			return nil, err
		}
		return redis.New[counter](client, nil)
	case "postgres":
		db, err := stdsql.Open("pgx", j.Address)
		if err != nil {
			return nil, err
		}
		// The name that the column has by default has changed.
		d, err := sql.New(db, sql.PostgreSQL, "records", &sql.Options[counter]{Version: "version"})
		if err != nil {
			return nil, err
		}
		return d, d.EnsureTable(ctx)
	default:
		d, err := dynamodb.New[counter]((&dynamodbtest.Server{Endpoint: j.Address}).Client(), "records", &dynamodb.Options{ConsistentRead: true})
		if err != nil {
			return nil, err
		}
		return d, d.EnsureTable(ctx)
	}
}

// run reads and writes all keys by two goroutines.
func (j job) run(ctx context.Context) (*report, error) {
	d, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: grace, MaxLifetime: time.Hour, Slack: j.Slack}, &slidingttl.Options[counter]{Strict: true})
	if err != nil {
		return nil, err
	}
	r := &report{Added: make(map[string]int), Read: make(map[string]int), Born: make(map[string]driver.Instant)}
	for _, key := range keys {
		err := slidingttl.ErrAmbiguous
		for errors.Is(err, slidingttl.ErrAmbiguous) { // as where Redis's client had to connect
			_, _, err = s.GetOrInsert(ctx, key, func(context.Context) (counter, error) { return counter{}, nil })
		}
		if err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex // guards r
	var wg sync.WaitGroup
	until := time.Now().Add(time.Duration(j.Seconds * float64(time.Second)))
	for first := range 2 {
		wg.Go(func() {
			for n := first; time.Now().Before(until); n++ {
				key := keys[n%len(keys)]
				added, wrong := step(ctx, s, key, n)
				mu.Lock()
				r.Calls++
				r.Added[key] += added
				if wrong != "" && len(r.Wrong) < 20 {
					r.Wrong = append(r.Wrong, wrong)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		e, err := s.Peek(ctx, key)
		if err != nil {
			r.Wrong = append(r.Wrong, fmt.Sprintf("at the end: %v", err))
		}
		r.Read[key], r.Born[key] = e.Value.Count, e.CreatedAt
	}
	return r, s.Close(ctx)
}

// step makes one access, and wants the record to live as long as that promises.
func step(ctx context.Context, s *slidingttl.Store[counter], key string, n int) (added int, wrong string) {
	at := time.Now()
	var err error
	call := "Get"
	if n%3 == 0 {
		call = "Update"
		_, err = s.Update(ctx, key, func(c counter) (counter, error) {
			c.Count++
			return c, nil
		})
		if err == nil {
			added = 1
		} else if errors.Is(err, slidingttl.ErrConflict) {
			return 0, "" // others were faster, again and again
		}
	} else {
		_, err = s.Get(ctx, key)
	}
	if err != nil {
		return added, fmt.Sprintf("%s: %v", call, err)
	}
	e, err := s.Peek(ctx, key)
	switch {
	case err != nil:
		wrong = fmt.Sprintf("Peek after %s: %v", call, err)
	case e.ExpiresAt < driver.Floor(at.Add(grace-skew)):
		wrong = fmt.Sprintf("%s at %v promised %v, and %v is stored", call, at, at.Add(grace), e.ExpiresAt.Time())
	}
	return added, wrong
}
