package explore

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// crowd is many readers of many keys for some seconds, on virtual time. What a few calls on one key
// cannot show depends on bounds of tens and hundreds: who starves, who overruns, who spins.
type crowd struct {
	readers  int           // each reads keys of its own, one after another
	keys     int           // of each reader
	think    time.Duration // between two reads of a reader
	lasts    time.Duration
	takes    time.Duration // a touch
	rare     int           // keys read once, at the start
	together bool          // by one GetMulti; later reads of them hang or fail like their touches
	failing  int           // of them, how many touches fail for ever
	once     int           // how many fail once
	hang     int           // how many touches never end before their timeout
	refused  int           // of the readers, one in so many whose touches fail after the first minute
	flaky    time.Duration // for how long every second touch fails, by chance, after the first minute
	lost     int           // how many Gets may find a record dead, which is then stored again
	blip     time.Duration // for how long touches of all keys hang, from the second second on
	burst    int           // keys that are read at once at the start
	left     time.Duration // when those die
	even     int           // reads a second of keys that are read once, from the fourth second on
	batch    int           // keys of a GetMulti whose caller leaves
	flush    bool          // Flush runs throughout
	closes   time.Duration // the time that Close has; zero: a minute
	slack    time.Duration
	idle     time.Duration // zero: crowdIdle
	options  slidingttl.Options[int]
	inFlight int // touches that may run at once; zero: any
}

// crowds are those that the gate runs.
var crowds = map[string]crowd{
	"readers without slack, and touches that failed once": {
		readers: 300, keys: 1, lasts: 6 * time.Second, takes: 20 * time.Millisecond, rare: 10, once: 10,
	},
	"fewer readers": {
		readers: 200, keys: 1, lasts: 4 * time.Second, takes: 20 * time.Millisecond, rare: 10, once: 10,
	},
	"a batch whose caller leaves": {
		lasts: 2 * time.Second, takes: 20 * time.Millisecond, batch: 10_000, inFlight: 72,
	},
	"a burst, and an even load after it": {
		even: 160, lasts: 40 * time.Second, takes: time.Millisecond, burst: 300, left: 6 * time.Second,
		options: slidingttl.Options[int]{Budget: 100},
	},
	"a Flush beside a slow touch and one that fails": {
		readers: 4, keys: 10, think: 3 * time.Millisecond, lasts: 4 * time.Second, takes: time.Millisecond, rare: 2, failing: 1, hang: 1, flush: true,
		options: slidingttl.Options[int]{Touches: slidingttl.Background},
	},
	"a Close of many that wait, of which some fail": {
		lasts: time.Second, takes: 10 * time.Millisecond, rare: 3000, once: 300, closes: 200 * time.Millisecond,
		options: slidingttl.Options[int]{Touches: slidingttl.Background},
	},
	"some hang": {
		readers: 20, keys: 20, think: 10 * time.Millisecond, lasts: 20 * time.Second, takes: 5 * time.Millisecond, rare: 100, hang: 100, closes: time.Second,
	},
	"a shard hangs": {
		readers: 10, keys: 20, think: 3 * time.Second, lasts: 40 * time.Minute, takes: time.Millisecond, rare: 1000, hang: 1000, together: true, closes: time.Second,
	},
	"a shard refuses": {
		readers: 10, keys: 20, think: 3 * time.Second, lasts: 15 * time.Minute, takes: time.Millisecond, rare: 2000, failing: 2000, together: true,
	},
	"a shard hangs, and touches have an hour": {
		readers: 10, keys: 20, think: 3 * time.Second, lasts: 40 * time.Minute, takes: time.Millisecond, rare: 50, hang: 50, together: true, closes: time.Second,
		options: slidingttl.Options[int]{TouchTimeout: time.Hour},
	},
	"all touches hang for a moment": {
		readers: 100, keys: 10, think: 50 * time.Millisecond, lasts: 15 * time.Second, takes: time.Millisecond, blip: 300 * time.Millisecond, idle: 4 * time.Second, closes: time.Second,
	},
	"all touches hang for ten seconds, and have an hour": {
		readers: 10, keys: 20, think: 3 * time.Second, lasts: 20 * time.Minute, takes: time.Millisecond, blip: 10 * time.Second, closes: time.Second,
		options: slidingttl.Options[int]{TouchTimeout: time.Hour},
	},
	"all touches hang for ten seconds, have an hour, and keep all workers": {
		readers: 10, keys: 20, think: 3 * time.Second, lasts: 20 * time.Minute, takes: time.Millisecond, blip: 10 * time.Second, closes: time.Second,
		options: slidingttl.Options[int]{TouchTimeout: time.Hour, Workers: 2},
	},
	"half of the keys refuse, with a budget": {
		readers: 20, keys: 100, think: time.Second, lasts: 50 * time.Minute, takes: time.Millisecond, refused: 2,
		options: slidingttl.Options[int]{Budget: 300},
	},
	"every second touch fails, with a budget": {
		readers: 100, keys: 10, think: 1200 * time.Millisecond, lasts: 22 * time.Minute, takes: 10 * time.Millisecond, flaky: 20 * time.Minute, idle: time.Minute, lost: 2300, // of 105,000
		options: slidingttl.Options[int]{Budget: 125},
	},
}

// TestCrowds runs crowds.
func TestCrowds(t *testing.T) {
	for name, c := range crowds {
		t.Run(name, func(t *testing.T) {
			if gateParts > 1 && c.readers > 100 {
				t.Skip("the race detector makes it too slow")
			}
			broken := c.play(t)
			for _, b := range broken {
				t.Error(b)
			}
		})
	}
}

// mass is the store of a crowd, and what it has seen.
type mass struct {
	*fakestore.Store[int]
	crowd
	began time.Time

	mu       sync.Mutex // guards the rest
	hangs    map[string]bool
	hung     map[string]bool // a touch of it hung in the blip, which delays its next ones
	fails    map[string]int  // how often touches of a key still fail
	failed   map[string]time.Time
	last     map[string]time.Time // when a touch of it was sent last
	spun     map[string]int       // how often one was sent without a rest
	running  int
	most     int
	bySecond map[int]int // touches sent
	over     map[int]int // of Stats.OverBudget
	broken   []string
}

const crowdIdle = 10 * time.Minute

func (m *mass) second() int { return int(time.Since(m.began) / time.Second) }

// answer answers c, of which touches take a while, and may fail or hang.
func (m *mass) answer(c *fakestore.Call[int]) {
	k := c.Key
	m.mu.Lock()
	if c.Op != fakestore.Touch {
		fails, hangs := m.fails[k] > 0, m.hangs[k]
		m.mu.Unlock()
		switch {
		case !m.together || time.Since(m.began) < time.Second:
			m.Do(c)
		case hangs:
			c.Err = driver.Sleep(c.Ctx, time.Hour)
		case fails:
			c.Err = errDown
		default:
			m.Do(c)
		}
		return
	}
	m.running++
	m.most = max(m.most, m.running)
	m.bySecond[m.second()]++
	if at, ok := m.failed[k]; ok && time.Since(at) < 50*time.Millisecond {
		m.spun[k]++
	}
	m.last[k] = time.Now()
	at := time.Since(m.began) - time.Second
	blip := at >= 0 && at < m.blip
	if blip {
		m.hung[k] = true
	}
	later := at - time.Minute
	fails := m.fails[k] > 0 || m.refuses(k) && later > 0 || later > 0 && later < m.flaky && rand.IntN(2) == 0
	hangs := m.hangs[k] || blip
	m.mu.Unlock()
	wait := m.takes
	if hangs {
		wait = time.Hour
	}
	c.Err = driver.Sleep(c.Ctx, wait)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	switch {
	case c.Err != nil:
	case fails:
		m.fails[k] = max(0, m.fails[k]-1)
		m.failed[k] = time.Now()
		c.Err = errDown
	default:
		if m.Do(c); c.Err == nil {
			delete(m.failed, k)
		}
	}
}

// add stores a record that dies in left.
func (m *mass) add(k string, left time.Duration) {
	now := driver.Floor(time.Now())
	m.Plant(k, 0, driver.Life{CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(left)})
}

func (m *mass) hasHung(k string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hung[k]
}

// refuses reports whether k is a key of a reader whose touches fail.
func (m *mass) refuses(k string) bool {
	var reader int
	n, _ := fmt.Sscan(k, &reader)
	return n == 1 && m.refused > 0 && reader%m.refused == 0
}

func (m *mass) violated(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = append(m.broken, fmt.Sprintf(format, args...))
}

// play runs the crowd, and returns what it broke.
func (c crowd) play(t *testing.T) (broken []string) {
	if hung := inBubble(t, func() { broken = c.run(t) }); hung != "" {
		broken = append(broken, "goroutines remain: "+hung)
	}
	return broken
}

func (c crowd) run(t *testing.T) []string {
	m := &mass{Store: fakestore.New[int](time.Millisecond), crowd: c, began: time.Now(), hangs: map[string]bool{}, hung: map[string]bool{}, fails: map[string]int{}, failed: map[string]time.Time{},
		last: map[string]time.Time{}, spun: map[string]int{}, bySecond: map[int]int{}, over: map[int]int{}}
	m.Handle = m.answer
	o := c.options
	c.idle = cmp.Or(c.idle, crowdIdle)
	var overNow atomic.Bool
	o.Observer = &slidingttl.Observer{Budget: func(over bool) { overNow.Store(over) }}
	s, err := slidingttl.New[int](m, slidingttl.Policy{IdleGrace: c.idle, MaxLifetime: 24 * time.Hour, Slack: c.slack}, &o)
	if err != nil {
		t.Fatal(err)
	}
	var rare, burst, batch []string
	for i := range c.rare {
		k := fmt.Sprint("rare ", i)
		m.add(k, crowdIdle/2)
		rare = append(rare, k)
		switch {
		case i < c.failing:
			m.fails[k] = 1 << 30
		case i < c.failing+c.once:
			m.fails[k] = 1
		case i < c.failing+c.once+c.hang:
			m.hangs[k] = true
		}
	}
	for i := range c.burst {
		burst = append(burst, fmt.Sprint("burst ", i))
		m.add(burst[i], c.left)
	}
	for i := range c.batch {
		batch = append(batch, fmt.Sprint("batch ", i))
		m.add(batch[i], crowdIdle/2)
	}
	ctx, stop := context.WithTimeout(context.Background(), c.lasts)
	defer stop()
	var lost atomic.Int32
	get := func(k string) {
		began := time.Now()
		if _, err := s.Get(context.Background(), k); err != nil && !errors.Is(err, slidingttl.ErrClosed) && !m.hasHung(k) && !m.refuses(k) {
			if c.lost == 0 {
				m.violated("Get at %v: %v", time.Since(m.began), err)
			}
			lost.Add(1)
			m.add(k, c.idle)
		}
		if d := time.Since(began); d > touchWait {
			m.violated("Get takes %v", d)
		}
	}
	var group sync.WaitGroup
	for r := range c.readers {
		for i := range c.keys {
			m.add(fmt.Sprint(r, " ", i), c.idle-c.slack/2)
		}
		group.Go(func() {
			_ = driver.Sleep(ctx, rand.N(max(c.think, time.Millisecond)))
			for i := 0; ctx.Err() == nil; i++ {
				get(fmt.Sprint(r, " ", i%c.keys))
				_ = driver.Sleep(ctx, c.think)
			}
		})
	}
	if c.together {
		batch, rare = rare, nil // whose caller does not leave
		group.Go(func() { _, _ = s.GetMulti(ctx, batch) })
	}
	for _, k := range append(rare, burst...) {
		group.Go(func() { get(k) })
	}
	if c.even > 0 {
		for i := range c.even * int(c.lasts/time.Second) {
			m.add(fmt.Sprint("even ", i), crowdIdle-time.Second)
		}
		group.Go(func() {
			_ = driver.Sleep(ctx, 3*time.Second)
			for i := 0; ctx.Err() == nil; i++ {
				group.Go(func() { get(fmt.Sprint("even ", i)) })
				_ = driver.Sleep(ctx, time.Second/time.Duration(c.even))
			}
		})
	}
	if c.batch > 0 {
		group.Go(func() {
			left, leave := context.WithTimeout(ctx, 5*time.Millisecond)
			defer leave()
			_, _ = s.GetMulti(left, batch)
		})
	}
	if c.flush {
		group.Go(func() { time.Sleep(10 * time.Millisecond); _ = s.Flush(ctx) })
	}
	for ctx.Err() == nil {
		_ = driver.Sleep(ctx, time.Second)
		m.mu.Lock()
		m.over[m.second()] = int(s.Stats().OverBudget)
		m.mu.Unlock()
	}
	group.Wait()
	if n := int(lost.Load()); n > c.lost {
		m.violated("%d Gets find nothing, of at most %d", n, c.lost)
	}
	m.judge(s)
	if c.closes == 0 {
		c.closes = time.Minute
	}
	closing, cancel := context.WithTimeout(context.Background(), c.closes)
	defer cancel()
	began := time.Now()
	err = s.Close(closing)
	if d := time.Since(began); d > c.closes {
		m.violated("Close takes %v of %v: %v", d, c.closes, err)
	}
	synctest.Wait()
	if st := s.Stats(); st.Due+st.Retried != ends(st) || st.Pending != 0 {
		m.violated("not every touch ended once: %+v", st)
	}
	if overNow.Load() && c.lasts > 30*time.Second {
		m.violated("Observer.Budget still says over")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken[:min(len(m.broken), 5)]
}

// judge judges what was seen before Close.
func (m *mass) judge(s *slidingttl.Store[int]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	broke := func(format string, args ...any) { m.broken = append(m.broken, fmt.Sprintf(format, args...)) }
	if m.inFlight > 0 && m.most > m.inFlight {
		broke("%d touches ran at once, of at most %d", m.most, m.inFlight)
	}
	// The first rest is one second, and what waits has its share.
	starved := 0
	for k, at := range m.failed {
		if m.fails[k] == 0 && !m.refuses(k) && time.Since(at) > 5*time.Second {
			starved++
		}
	}
	if starved > 0 && m.flaky == 0 && s.Stats().Pending <= len(m.failed) { // nothing goes before them
		broke("%d touches that failed once are not tried again after 5 s: %+v", starved, s.Stats())
	}
	for k, n := range m.spun {
		if n > 2 { // one for an access or a Flush that came meanwhile
			broke("%d touches of %s were sent less than 50 ms after a failure", n, k)
		}
	}
	if b := m.options.Budget; b > 0 && !m.flush && m.flaky == 0 { // Flush ignores it, and so do records that are about to die
		for sec, n := range m.bySecond {
			if inside := sec > 0 && sec < int(m.lasts/time.Second)-2; inside && float64(n) > 1.2*b+2 && m.over[sec+2] <= m.over[sec-1] {
				broke("second %d: %d touches with a budget of %v, and OverBudget goes from %d to %d", sec, n, b, m.over[sec-1], m.over[sec+2])
			}
		}
	}
}

var crowdFlag = flag.Uint64("explore.crowd", 0, "the seed of TestCrowd")

// TestCrowd repeats a crowd that TestEveryCrowd has reported.
func TestCrowd(t *testing.T) {
	if *crowdFlag == 0 {
		return
	}
	c := drawCrowd(rand.New(rand.NewPCG(*crowdFlag, 0)))
	t.Logf("%+v", c)
	for _, b := range c.play(t) {
		t.Error(b)
	}
}

// drawCrowd returns a crowd of a seed.
func drawCrowd(r *rand.Rand) (c crowd) {
	one := func(of ...int) int { return of[r.IntN(len(of))] }
	c = crowd{
		readers: one(0, 1, 10, 60, 300), keys: one(1, 5, 50), think: time.Duration(one(1, 3, 50)) * time.Millisecond,
		lasts: time.Duration(one(3, 8, 15)) * time.Second, takes: time.Duration(one(1, 5, 20, 90)) * time.Millisecond,
		rare: one(0, 10, 200, 2000), failing: one(0, 0, 1, 5), once: one(0, 10, 200), hang: one(0, 0, 1, 20),
		burst: one(0, 0, 100, 2000), left: time.Duration(one(6, 10, 30)) * time.Second, even: one(0, 0, 50, 160),
		batch: one(0, 0, 5000), flush: one(0, 1) == 1, closes: time.Duration(one(0, 50, 1000)) * time.Millisecond,
		slack: time.Duration(one(0, 5, 60)) * time.Second,
	}
	c.rare = max(c.rare, c.failing+c.once+c.hang)
	switch r.IntN(3) {
	case 1:
		c.options.Touches = slidingttl.Background
	case 2:
		c.options.Budget = float64(one(20, 100, 1000))
	}
	if r.IntN(3) == 0 {
		c.options.Workers = one(1, 8)
	}
	return c
}
