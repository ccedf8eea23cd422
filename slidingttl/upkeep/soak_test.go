package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// rough is a store that answers late, that fails before a write and after it, and in which
// some records are marred. It sees what lands.
type rough struct {
	driver.Driver[string] // without the capabilities of one in memory
	inner                 *memory.Driver[string]
	fail                  func(key string, next driver.Meta) // the test, for what must not land

	mu      sync.Mutex // guards the rest
	dice    *rand.Rand
	marred  map[string]bool
	adopted map[string]int // how often, in the present life
	mended  map[string]int
	reaped  map[string]int
}

var errRough = errors.New("no answer")

// write makes a write, or loses it or its answer. It calls landed if the write was made.
func (r *rough) write(do func() error, landed func()) error {
	r.mu.Lock()
	p, late := r.dice.Float64(), time.Duration(r.dice.IntN(50))*time.Millisecond
	r.mu.Unlock()
	time.Sleep(late)
	if p < 0.05 {
		return errRough
	}
	r.mu.Lock() // so that a landed write is noted before it is visible
	defer r.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	landed()
	if p > 0.95 {
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, errRough)
	}
	return nil
}

func (r *rough) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = r.write(func() (err error) {
		v, err = r.inner.Touch(ctx, key, was, life, now)
		return err
	}, func() {
		if was.CreatedAt == 0 {
			r.adopted[key]++
		}
		shorter := was.ExpiresAt != 0 && life.ExpiresAt < was.ExpiresAt
		beyond := was.ExpiresAt > now.Add(policy.IdleGrace+policy.Slack)
		if was.CreatedAt != 0 && life.CreatedAt != was.CreatedAt || shorter && !beyond {
			r.fail(key, driver.Meta{Life: life})
		}
	})
	return v, err
}

func (r *rough) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	return r.write(func() error { return r.inner.Remove(ctx, key, was, now) }, func() {
		r.reaped[key]++
		if was.CreatedAt == 0 || was.CreatedAt.Add(policy.MaxLifetime) > now {
			r.fail(key, was)
		}
	})
}

func (r *rough) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	return r.inner.Segments(ctx, n)
}

func (r *rough) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dice.Float64() < 0.05 {
		return driver.Page{}, errRough
	}
	p, err := r.inner.Scan(ctx, from, limit)
	for i := range p.Records {
		if r.marred[p.Records[i].Key] {
			p.Records[i].Problem = &driver.InvalidError{Field: "created_at", Value: "a word", Rule: "must be a number"}
		}
	}
	return p, err
}

func (r *rough) Mend(_ context.Context, key string, apply bool) (fault string, err error) {
	err = r.write(func() error {
		if r.marred[key] {
			fault = "created_at is a word"
		}
		return nil
	}, func() {
		if apply && fault != "" {
			r.mended[key]++
			delete(r.marred, key)
		}
	})
	if err != nil {
		return "", err
	}
	return fault, nil
}

// client reads some records as an application does, and knows what it was promised.
type client struct {
	t        *testing.T
	store    *slidingttl.Store[string]
	dice     *rand.Rand
	promised map[string]driver.Instant // readable until then
	created  map[string]driver.Instant
}

// access reads key, or writes it again, and wants what was promised.
func (c *client) access(key string) {
	ctx := c.t.Context()
	now := driver.Floor(time.Now())
	if c.dice.IntN(20) == 0 {
		if c.store.Upsert(ctx, key, "w") != nil {
			return
		}
		now = driver.Floor(time.Now()) // it may have been tried again
	} else if _, err := c.store.Get(ctx, key); errors.Is(err, slidingttl.ErrNotFound) {
		if until := c.promised[key]; until > driver.Floor(time.Now()) {
			c.t.Errorf("%s is gone, %v before its time", key, until.Sub(driver.Floor(time.Now())))
		}
		delete(c.promised, key)
		delete(c.created, key)
		return
	} else if err != nil {
		return // the touch failed: what was promised before holds
	}
	e, err := c.store.Peek(ctx, key)
	if err != nil || e.CreatedAt == 0 {
		c.t.Errorf("%s was read, and then %v, created at %d", key, err, e.CreatedAt)
		return
	}
	if was := c.created[key]; c.promised[key] > now && was != e.CreatedAt {
		c.t.Errorf("%s has become %v younger within its life", key, e.CreatedAt.Sub(was))
	}
	c.created[key], c.promised[key] = e.CreatedAt, policy.Deadline(e.CreatedAt, now)
}

// TestSoak: two adopters, one who mends, a reaper and live traffic, on the same records of
// a store that fails now and then, for half a year.
func TestSoak(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { soak(t, seed) }) })
	}
}

func soak(t *testing.T, seed uint64) {
	f := open(t)
	r := &rough{
		Driver: f.Driver, inner: f.Driver, dice: rand.New(rand.NewPCG(seed, 1)),
		fail:    func(key string, next driver.Meta) { t.Errorf("%s must not become %+v", key, next.Life) },
		marred:  make(map[string]bool),
		adopted: make(map[string]int),
		mended:  make(map[string]int),
		reaped:  make(map[string]int),
	}
	const each = 100
	for i := range each {
		f.Add(fmt.Sprint("live-", i), 0, 0)
		f.Add(fmt.Sprint("quiet-", i), 0, 0)
		f.Add(fmt.Sprint("past-", i), -95*day, 0)
		f.Add(fmt.Sprint("marred-", i), 0, 200*day)
		r.marred[fmt.Sprint("marred-", i)] = true
	}

	var operators sync.WaitGroup
	operator := func(run func(o upkeep.WriteOptions) error) {
		operators.Go(func() {
			for range 4 { // again and again, each with another pace
				o := upkeep.WriteOptions{Apply: true}
				o.Page, o.Limits.Writes = 20, 0.01 // a write in 100 s
				if err := run(o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		operator(func(o upkeep.WriteOptions) error {
			_, err := upkeep.Adopt(t.Context(), r, policy, &upkeep.AdoptOptions{WriteOptions: o})
			return err
		})
	}
	operator(func(o upkeep.WriteOptions) error {
		_, err := upkeep.Mend(t.Context(), r, &upkeep.MendOptions{WriteOptions: o})
		return err
	})
	operator(func(o upkeep.WriteOptions) error {
		_, err := upkeep.Reap(t.Context(), r, policy, &upkeep.ReapOptions{WriteOptions: o})
		return err
	})

	var clients sync.WaitGroup
	for k := range 4 {
		store, err := slidingttl.New[string](r, policy, &slidingttl.Options[string]{Strict: true, TouchWait: time.Minute})
		ok(t, err)
		clients.Go(func() {
			defer func() { ok(t, store.Close(context.Background())) }()
			c := &client{t, store, rand.New(rand.NewPCG(seed, uint64(k)+2)), make(map[string]driver.Instant), make(map[string]driver.Instant)}
			for end := time.Now().Add(180 * day); time.Now().Before(end); {
				c.access(fmt.Sprint("live-", k+4*c.dice.IntN(each/4)))
				time.Sleep(time.Duration(c.dice.Int64N(int64(12 * time.Hour))))
			}
		})
	}
	operators.Wait()

	// The operators are done before any record has died of idleness.
	left, err := survey.Audit(t.Context(), r, policy, nil)
	ok(t, err)
	if n := left.States[verdict.NoCreatedAt].Count + left.States[verdict.Malformed].Count + left.States[verdict.PastCap].Count; n != 0 {
		t.Errorf("left are %d records:\n%v", n, left)
	}
	r.mu.Lock()
	for i := range each {
		for _, kind := range []string{"live-", "quiet-", "marred-"} {
			key := fmt.Sprint(kind, i)
			if n := r.adopted[key]; n != 1 && !(kind == "live-" && n == 0) { // it may have been written again first
				t.Errorf("%s was adopted %d times", key, n)
			}
			if n := r.reaped[key]; n != 0 {
				t.Errorf("%s was reaped", key)
			}
			if n := r.mended[key]; n > 1 || (n == 1) != strings.HasPrefix(key, "marred-") {
				t.Errorf("%s was mended %d times", key, n)
			}
		}
		if n := r.reaped[fmt.Sprint("past-", i)]; n != 1 {
			t.Errorf("past-%d was reaped %d times", i, n)
		}
	}
	r.mu.Unlock()
	clients.Wait()
}
