package slidingttl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// generation is what a history knows of the record that holds one value.
type generation struct {
	promised, atMost driver.Instant // to those who have read it: by the beginning and by the end of their calls
	dies             driver.Instant // as stored last
	deleted, gone    driver.Instant // when the call that deleted it began and ended; zero: none did
	ended            bool           // DeleteEntry has written that it has died
}

// counts judges a random history of one key, whose touches are refused for a while, or so slow that the store, which
// decides by its own time, finds the record dead: promise 3 says that each such death before its time is counted, and no other is.
type counts struct {
	strict bool

	mu   sync.Mutex // guards the rest
	down time.Time  // until when touches are refused
	r    *rand.Rand
	all  map[int]*generation
	last int
}

func (c *counts) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

func (c *counts) of(value int, f func(*generation)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[value] == nil {
		c.all[value] = &generation{}
	}
	f(c.all[value])
}

func (c *counts) isDown() bool {
	often, long := c.draw(30) == 0, time.Duration(c.draw(15))*time.Second
	c.mu.Lock()
	defer c.mu.Unlock()
	if often {
		c.down = time.Now().Add(long)
	}
	return time.Now().Before(c.down)
}

func (c *counts) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

// handle makes d's touches slow, and learns what is stored.
func (c *counts) handle(d *remote[int], under *hoard[int]) {
	inner := d.Handle
	d.Handle = func(call *fakestore.Call[int]) {
		if call.Op == fakestore.Touch {
			most := 5
			if c.draw(4) == 0 {
				most = 3000
			}
			time.Sleep(time.Duration(c.draw(most)) * time.Millisecond)
			call.Now = max(call.Now, driver.Floor(time.Now()))
			if c.isDown() {
				call.Err = errDown
				return
			}
		}
		if call.Op == fakestore.Delete && c.draw(4) == 0 { // whose answer is lost
			call.Err = driver.ErrAmbiguous
			return
		}
		inner(call)
		if call.Op == fakestore.Delete { // whose answer is late
			time.Sleep(time.Duration(c.draw(50)) * time.Millisecond)
		}
		if e, err := under.Get(context.Background(), "k"); err == nil && !call.Reads() {
			c.of(e.Value, func(g *generation) { g.dies = e.ExpiresAt })
		}
	}
}

// access makes a call that returns the value, mostly with a context that ends soon.
func (c *counts) access(ctx context.Context, s *slidingttl.Store[int], p slidingttl.Policy) {
	if c.draw(8) < 3 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+c.draw(60))*time.Millisecond)
		defer cancel()
	}
	began := driver.Floor(time.Now())
	var v int
	var err error
	switch c.draw(8) {
	case 0, 1:
		var many map[string]int
		if many, err = s.GetMulti(ctx, []string{"k", "absent"}); !c.strict {
			err = nil // it returns what it could read
		}
		v = many["k"]
	case 2:
		v, _, err = s.GetOrInsert(ctx, "k", func(context.Context) (int, error) { return c.next(), nil })
	default:
		v, err = s.Get(ctx, "k")
	}
	if err != nil {
		return
	}
	ended := driver.Ceil(time.Now())
	c.of(v, func(g *generation) {
		g.promised, g.atMost = max(g.promised, began.Add(p.IdleGrace)), max(g.atMost, ended.Add(p.IdleGrace))
	})
}

func (c *counts) step(ctx context.Context, s *slidingttl.Store[int], under *hoard[int], p slidingttl.Policy) {
	switch e, err := under.Get(ctx, "k"); c.draw(4) {
	case 0:
		time.Sleep(time.Duration(c.draw(2000)) * time.Millisecond)
	case 1:
		time.Sleep(time.Duration(c.draw(12)) * time.Second)
	default: // near its death
		if left := time.Until(e.ExpiresAt.Time()); err == nil && left > 0 {
			time.Sleep(left - min(left, time.Duration(c.draw(1500))*time.Millisecond))
		}
	}
	switch c.draw(12) {
	case 0, 1: // which may fail, or not tell that the record is gone
		e, err := s.Peek(ctx, "k")
		if time.Sleep(time.Duration(c.draw([]int{100, 20_000}[c.draw(2)])) * time.Millisecond); err != nil {
			return
		}
		now, known := under.Get(ctx, "k")
		dead := known != nil || now.Value != e.Value || !now.Alive(driver.Floor(time.Now()))
		if c.draw(2) == 0 {
			if _, err = s.TouchEntry(ctx, "k", e); dead && err == nil {
				return // nothing was promised
			}
		} else if _, err = s.Touch(ctx, "k"); err == nil {
			return // nobody has a value
		}
		c.of(e.Value, func(g *generation) { g.atMost = max(g.atMost, driver.Ceil(time.Now()).Add(p.IdleGrace)) })
	case 2:
		e, err := under.Get(ctx, "k")
		remove := func() error { return s.Delete(ctx, "k") }
		if c.draw(2) == 0 { // which may find it dead
			remove = func() error {
				err := s.DeleteEntry(ctx, "k", e)
				c.of(e.Value, func(g *generation) { g.ended = g.ended || err == nil })
				return err
			}
			time.Sleep(time.Duration(c.draw(50)) * time.Millisecond)
		}
		began := driver.Floor(time.Now())
		if remove() == nil && err == nil {
			c.of(e.Value, func(g *generation) { g.deleted, g.gone = began, driver.Ceil(time.Now()) })
		}
	default:
		c.access(ctx, s, p)
	}
}

// died reports whether a generation died before what was promised, and was not deleted by deleted; zero: at all.
func (g *generation) died(promised, deleted driver.Instant) bool {
	return g.dies != 0 && !g.ended && promised > g.dies && (deleted == 0 || deleted >= g.dies)
}

func TestBrokenPromisesAreCounted(t *testing.T) {
	const histories = 400
	broke := 0
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 31))
		o := slidingttl.Options[int]{Strict: seed%5 == 1, Budget: float64(seed % 5 / 4)}
		if seed%5 == 2 {
			o.Touches = slidingttl.Background
		}
		p := slidingttl.Policy{IdleGrace: 10 * time.Second, MaxLifetime: time.Hour}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := &counts{strict: o.Strict, r: r, all: make(map[int]*generation)}
				d, under := newRemote[int](time.Millisecond)
				d.trip = time.Millisecond
				c.handle(d, under)
				s := open(t, d, p, &o)
				must(t, s.Insert(t.Context(), "k", c.next()))
				var callers sync.WaitGroup
				for range 3 {
					callers.Go(func() {
						for range 15 {
							c.step(t.Context(), s, under, p)
						}
					})
				}
				callers.Wait()
				time.Sleep(time.Minute)
				c.mu.Lock()
				defer c.mu.Unlock()
				sure, perhaps := false, false
				for v, g := range c.all {
					if v > 0 {
						sure, perhaps = sure || g.died(g.promised, g.deleted), perhaps || g.died(g.atMost, g.gone)
					}
				}
				n := s.Stats()
				switch counted := n.Broken > 0; {
				case sure && !counted:
					t.Errorf("a record died before its time, and that is not counted: %+v", n)
				case counted && !perhaps && !o.Strict: // whose callers are told
					t.Errorf("%v of promised life are counted as broken, and each record lived as promised: %+v", n.Broken, n)
				case sure:
					broke++
				}
			})
		})
	}
	if broke < histories/20 {
		t.Errorf("a promise was broken in %d of %d histories, too few to judge", broke, histories)
	}
}
