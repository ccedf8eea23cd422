package slidingttl_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/hoard"
)

var (
	modelSeed = flag.Uint64("model.seed", 0, "run only this history of TestModel")
	modelRuns = flag.Int("model.runs", 150, "histories that TestModel runs")
)

// value is what the model stores: each write's is its own, and an update's names
// the one it was made from.
type value struct{ id, from int }

// event is something that happened to a key, at the one moment it happened.
type event struct {
	op     string // of the driver; "plant" for a foreign writer
	at     time.Time
	was    driver.Life // replace, touch: what it was planned for
	life   driver.Life // what is stored afterwards; get: what was found
	value  value
	absent bool // get: nothing was found
}

// answer is what a client was told.
type answer struct {
	op         string
	key        string
	wait       bool // its store waits for touches
	start, end time.Time
	value      value
	err        error
	shaky      bool // its touch failed, or it read on the brink of death
}

// world is one history: a backend, the log of all that happened to it, and all
// that clients were told.
type world struct {
	policy  slidingttl.Policy
	backend hoard.Driver[value]

	mu      sync.Mutex // guards the rest, and makes each backend call and its log one
	rng     *rand.Rand
	events  map[string][]event
	answers []answer
	lastID  int
	broken  []string
}

func (w *world) violated(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *world) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) span(most time.Duration) time.Duration {
	return time.Duration(w.random(int(most/time.Microsecond)+1)) * time.Microsecond
}

func (w *world) next(from int) value {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	return value{w.lastID, from}
}

// tap is one process's connection to the world: slow, unreliable, and logged.
type tap struct {
	*world
	trip     time.Duration
	touching map[string]int // touches in flight
}

func (d *tap) Resolution() time.Duration { return d.backend.Resolution() }

func (d *tap) call(ctx context.Context, key string, f func() (*event, error)) error {
	if err := sleep(ctx, d.span(d.trip)); err != nil {
		return err
	}
	d.mu.Lock()
	ev, err := f()
	if ev != nil {
		ev.at = time.Now()
		d.events[key] = append(d.events[key], *ev)
	}
	d.mu.Unlock()
	if serr := sleep(ctx, d.span(d.trip)); serr != nil {
		return serr
	}
	return err
}

func (d *tap) Get(ctx context.Context, key string) (e driver.Entry[value], err error) {
	err = d.call(ctx, key, func() (*event, error) {
		e, err = d.backend.Get(ctx, key)
		return &event{op: "get", life: e.Life, value: e.Value, absent: err != nil}, err
	})
	return e, err
}

func (d *tap) Insert(ctx context.Context, key string, v value, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	err = d.call(ctx, key, func() (*event, error) {
		if version, err = d.backend.Insert(ctx, key, v, life, now); err != nil {
			return nil, err
		}
		return &event{op: "insert", life: life, value: v}, nil
	})
	return version, err
}

func (d *tap) Replace(ctx context.Context, key string, v value, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	err = d.call(ctx, key, func() (*event, error) {
		if version, err = d.backend.Replace(ctx, key, v, was, life, now); err != nil {
			return nil, err
		}
		return &event{op: "replace", was: was.Life, life: life, value: v}, nil
	})
	return version, err
}

func (d *tap) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	d.mu.Lock()
	if d.touching[key]++; d.touching[key] > 1 {
		d.violated("promise 9: %d touches of %s in flight at once", d.touching[key], key)
	}
	fails := d.rng.IntN(20) == 0
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.touching[key]--
		d.mu.Unlock()
	}()
	err = d.call(ctx, key, func() (*event, error) {
		if fails {
			return nil, errDown
		}
		if version, err = d.backend.Touch(ctx, key, was, life, now); err != nil {
			return nil, err
		}
		return &event{op: "touch", was: was.Life, life: life}, nil
	})
	return version, err
}

func (d *tap) Delete(ctx context.Context, key string) error {
	return d.call(ctx, key, func() (*event, error) {
		return &event{op: "delete"}, d.backend.Delete(ctx, key)
	})
}

// client does n random things to a few keys.
func (w *world) client(s *slidingttl.Store[value], wait bool, failed *sync.Map, n int) {
	ctx := context.Background()
	for range n {
		time.Sleep(w.span([]time.Duration{10 * time.Millisecond, w.policy.IdleGrace / 4, w.policy.IdleGrace * 6 / 5}[w.random(3)]))
		key := fmt.Sprint("key", w.random(3))
		a := answer{key: key, wait: wait, start: time.Now()}
		ctx, cancel := ctx, context.CancelFunc(func() {})
		if w.random(10) == 0 {
			ctx, cancel = context.WithTimeout(ctx, w.span(30*time.Millisecond))
		}
		switch op := w.random(20); {
		case op < 9:
			a.op = "get"
			a.value, a.err = s.Get(ctx, key)
		case op < 10:
			a.op = "get"
			var m map[string]value
			m, a.err = s.GetMulti(ctx, []string{key, "nobody's"})
			var ok bool
			if a.value, ok = m[key]; !ok && a.err == nil {
				a.err = slidingttl.ErrNotFound
			}
		case op < 12:
			a.op = "peek"
			var e driver.Entry[value]
			e, a.err = s.Peek(ctx, key)
			a.value = e.Value
		case op < 14:
			a.op, a.value = "upsert", w.next(0)
			a.err = s.Upsert(ctx, key, a.value)
		case op < 15:
			a.op, a.value = "insert", w.next(0)
			a.err = s.Insert(ctx, key, a.value)
		case op < 17:
			a.op = "update"
			a.value, a.err = s.Update(ctx, key, func(v value) (value, error) { return w.next(v.id), nil })
		case op < 18:
			a.op = "touch"
			_, a.err = s.Touch(ctx, key)
		case op < 19:
			a.op = "delete"
			a.err = s.Delete(ctx, key)
		default:
			v := w.next(0)
			w.mu.Lock()
			w.backend.Plant(key, v, driver.Life{})
			w.events[key] = append(w.events[key], event{op: "plant", at: time.Now(), value: v})
			w.mu.Unlock()
			cancel()
			continue
		}
		a.end = time.Now()
		if at, ok := failed.Load(key); ok && !at.(time.Time).Before(a.start) {
			a.shaky = true
		}
		if ctx.Err() != nil {
			a.shaky = true // it left before its touch was done
		}
		cancel()
		w.mu.Lock()
		w.answers = append(w.answers, a)
		w.mu.Unlock()
	}
}

func TestModel(t *testing.T) {
	seeds := make([]uint64, *modelRuns)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if *modelSeed != 0 {
		seeds = []uint64{*modelSeed}
	}
	for _, seed := range seeds {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { bubble(t, func(t *testing.T) { runModel(t, seed) }) }) {
			t.Fatalf("again with: go test ./slidingttl -run TestModel -model.seed=%d", seed)
		}
	}
}

func runModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		policy: slidingttl.Policy{
			IdleGrace:   10 * time.Second,
			MaxLifetime: 40*time.Second + 123*time.Millisecond,
			Slack:       []time.Duration{0, time.Second, 3500 * time.Millisecond}[rng.IntN(3)],
		},
		rng:    rng,
		events: make(map[string][]event),
	}
	if rng.IntN(4) == 0 {
		w.policy.Slack, w.policy.Promote = 0, true
	}
	w.backend.Step = []time.Duration{time.Millisecond, time.Second}[rng.IntN(2)]
	time.Sleep(time.Duration(rng.IntN(int(time.Second))))

	var stores []*slidingttl.Store[value]
	var clients []func()
	for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
		var failed sync.Map
		d := &tap{world: w, trip: time.Duration(rng.IntN(20)) * time.Millisecond, touching: map[string]int{}}
		s, err := slidingttl.New[value](d, w.policy, &slidingttl.Options[value]{
			Touches: mode, Workers: 2, Queue: 1 + rng.IntN(3),
			OnTouchError: func(_ context.Context, key string, _ error) { failed.Store(key, time.Now()) },
		})
		must(t, err)
		stores = append(stores, s)
		for range 3 {
			clients = append(clients, func() { w.client(s, mode == slidingttl.Wait, &failed, 60) })
		}
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		time.Sleep(w.span(time.Second)) // apart, so that a seed mostly means one history
		wg.Go(c)
	}
	wg.Wait()
	for _, s := range stores {
		must(t, s.Close(t.Context()))
		if st := s.Stats(); st.Pending != 0 {
			t.Errorf("promise 11: %d touches pending after Close", st.Pending)
		}
	}
	for key, events := range w.events {
		w.checkEvents(key, events)
	}
	w.checkAnswers()
	for _, b := range w.broken {
		t.Error(b)
	}
}

// checkEvents replays what happened to a key against a plain record.
func (w *world) checkEvents(key string, events []event) {
	step := w.backend.Step
	p := w.policy
	var now *event // the record as it stands
	for i := range events {
		ev := &events[i]
		at, atUp := driver.Floor(ev.at), driver.Ceil(ev.at)
		bad := func(promise int, format string, args ...any) {
			w.violated("promise %d: %s %s at %v: %s", promise, ev.op, key, ev.at.Format("05.000000"), fmt.Sprintf(format, args...))
		}
		if l := ev.life; ev.op != "get" && l.CreatedAt != 0 {
			if l.ExpiresAt > p.Cap(l.CreatedAt).RoundUp(step) {
				bad(4, "stores an expiry %v past the cap", l.ExpiresAt.Sub(p.Cap(l.CreatedAt)))
			}
			if !p.Promote && l.ExpiresAt > atUp.Add(p.IdleGrace).Add(p.Slack).RoundUp(step) && (now == nil || l.ExpiresAt > now.life.ExpiresAt) {
				bad(4, "stores an expiry %v from now", l.ExpiresAt.Sub(at))
			}
			if l.ExpiresAt%driver.Instant(step/time.Millisecond) != 0 {
				bad(3, "expiry is no multiple of the resolution")
			}
		}
		switch ev.op {
		case "plant":
			now = ev
			continue
		case "delete":
			now = nil
			continue
		case "get":
			continue
		case "insert":
			if now != nil && now.life.Alive(at) {
				bad(6, "over a live record")
			}
			if ev.life.CreatedAt > at {
				bad(6, "created in the future")
			}
			now = ev
			continue
		}
		if now == nil {
			bad(5, "of a record that is not there")
			continue
		}
		if now.life != ev.was {
			bad(6, "planned for %+v, landed on %+v", ev.was, now.life)
		}
		sameLife := ev.life.CreatedAt == now.life.CreatedAt
		if ev.op == "replace" {
			switch {
			case sameLife && ev.life.ExpiresAt < now.life.ExpiresAt:
				bad(7, "shortens the life by %v", now.life.ExpiresAt.Sub(ev.life.ExpiresAt))
			case !sameLife && now.life.CreatedAt != 0 && now.life.Alive(at) && p.Cap(now.life.CreatedAt) > at:
				bad(6, "a live record lost its created_at")
			}
			if from := ev.value.from; from != 0 && from != now.value.id {
				bad(6, "an update made from value %d landed on value %d", from, now.value.id)
			}
			now = ev
			continue
		}
		switch old := now.life; {
		case old.CreatedAt == 0:
			if ev.life.CreatedAt > at || at-ev.life.CreatedAt > 10_000 {
				bad(10, "adopted with created_at %v ago", at.Sub(ev.life.CreatedAt))
			}
		case !sameLife:
			bad(6, "changes created_at")
		case ev.life.ExpiresAt <= old.ExpiresAt:
			bad(7, "moves the expiry by %v", ev.life.ExpiresAt.Sub(old.ExpiresAt))
		case old.ExpiresAt >= p.Deadline(old.CreatedAt, atUp):
			bad(2, "was not due")
		case !p.Promote && ev.life.ExpiresAt-old.ExpiresAt <= driver.Instant(p.Slack/time.Millisecond) && ev.life.ExpiresAt != p.Cap(old.CreatedAt).RoundUp(step):
			bad(2, "again within the slack")
		}
		touched := *now
		touched.life = ev.life
		now = &touched
	}
}

// checkAnswers holds what clients were told against what happened.
func (w *world) checkAnswers() {
	p := w.policy
	for _, a := range w.answers {
		bad := func(promise int, format string, args ...any) {
			w.violated("promise %d: %s %s from %s to %s: %s", promise, a.op, a.key,
				a.start.Format("05.000000"), a.end.Format("05.000000"), fmt.Sprintf(format, args...))
		}
		read := a.op == "get" || a.op == "peek"
		switch {
		case a.err == nil:
		case errors.Is(a.err, errDown) && a.op != "touch":
			bad(8, "failed because a touch did")
		case errors.Is(a.err, slidingttl.ErrConflict):
			bad(9, "%v", a.err)
		}
		if !read {
			continue
		}
		// What the record was at the read, and what was promised before.
		var promised driver.Instant
		var found *event
		for _, ev := range w.events[a.key] {
			if ev.at.After(a.end) {
				break
			}
			if ev.op == "get" && !ev.absent && ev.value == a.value && !ev.at.Before(a.start) {
				found = &ev
			}
		}
		if a.err == nil {
			switch {
			case found == nil:
				bad(8, "an answer that was not in the store")
			case !found.life.Alive(driver.Floor(found.at)):
				bad(4, "expired %v ago", driver.Floor(found.at).Sub(found.life.ExpiresAt))
			case found.life.CreatedAt != 0 && p.Cap(found.life.CreatedAt) <= driver.Floor(found.at):
				bad(4, "past the cap")
			}
			continue
		}
		if !errors.Is(a.err, slidingttl.ErrNotFound) {
			continue
		}
		for _, b := range w.answers {
			if b.key != a.key || b.err != nil || b.shaky || !b.wait || b.end.After(a.start) || b.op == "peek" || b.op == "delete" {
				continue
			}
			born, known := w.lifeAt(b)
			if !known || w.ended(a.key, b.start, a.end) {
				continue
			}
			until := p.Deadline(born, driver.Floor(b.start))
			if b.op != "get" && b.op != "touch" {
				until = p.Written(born, driver.Floor(b.start))
			}
			promised = max(promised, until)
		}
		if promised > driver.Ceil(a.end) {
			bad(3, "not found %v before the promised deadline", promised.Sub(driver.Ceil(a.end)))
		}
	}
}

// lifeAt returns the generation that b was told of, and false if that cannot be
// said or its record was about to die when b read it.
func (w *world) lifeAt(b answer) (born driver.Instant, known bool) {
	for _, ev := range w.events[b.key] {
		if ev.at.Before(b.start) {
			continue
		}
		if ev.at.After(b.end) {
			break
		}
		if ev.op == "get" && ev.life.ExpiresAt != 0 && ev.life.ExpiresAt <= driver.Ceil(b.end) {
			return 0, false
		}
		if ev.life.CreatedAt != 0 {
			born, known = ev.life.CreatedAt, true
		}
	}
	return born, known
}

// ended reports whether the record of key was deleted, or overwritten by another
// program, between two times.
func (w *world) ended(key string, from, to time.Time) bool {
	for _, ev := range w.events[key] {
		if ev.at.Before(from) || ev.at.After(to) {
			continue
		}
		if ev.op == "delete" || ev.op == "plant" {
			return true
		}
	}
	return false
}
