package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// delta is a river whose records have times, and are trimmed a day after.
type delta struct {
	*river
	born map[string]time.Time // of the records, by key
	lost map[string]bool      // those that were trimmed unread
	well map[string]time.Time // when each shard, by id, was last read by a healthy process
	all  map[string]*reach
}

func (d *delta) add(parent string) {
	s := &reach{id: fmt.Sprintf("shard-%03d", len(d.all)), parent: parent}
	d.all[s.id] = s
	d.shards = append(d.shards, s)
}

func (d *delta) open() (open []*reach) {
	for _, s := range d.shards {
		if !s.closed {
			open = append(open, s)
		}
	}
	return open
}

// pass lets a while pass, and trims what is a day old.
func (d *delta) pass(while time.Duration, g *graves) {
	for ; while > 0; while -= 5 * time.Minute {
		time.Sleep(5 * time.Minute)
		d.mu.Lock()
		now := time.Now()
		for _, s := range d.shards {
			for s.trimmed < len(s.keys) && now.Sub(d.born[s.keys[s.trimmed]]) > 24*time.Hour {
				if key := s.keys[s.trimmed]; !g.has(key) {
					d.lost[key] = true
				}
				s.trimmed++
			}
		}
		d.shards = slices.DeleteFunc(d.shards, func(s *reach) bool { // it was closed a day ago
			return s.closed && now.Sub(s.at) > 24*time.Hour && s.trimmed == len(s.keys)
		})
		d.mu.Unlock()
	}
}

func (g *graves) has(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead[key] != nil
}

// kin reports whether one of two shards comes from the other.
func (d *delta) kin(a, b string) bool {
	from := func(id, of string) bool {
		for ; id != ""; id = d.all[id].parent {
			if id == of {
				return true
			}
		}
		return false
	}
	return from(a, b) || from(b, a)
}

// Whatever a process, the service, Bury and Save do, each record of a stream is handed over, or a gap of
// its shard is told of once it is trimmed. No gap is told of a shard that was read less than a day ago.
func TestStreamTellsWhatIsLost(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { judgeStream(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func judgeStream(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	d := delta{&river{}, map[string]time.Time{}, map[string]bool{}, map[string]time.Time{}, map[string]*reach{}}
	d.add("")
	d.add("")
	var g graves
	var refused, unsaved, unburied atomic.Bool
	g.fails = func() error {
		if unburied.Load() {
			return errors.New("disk full")
		}
		return nil
	}
	o := g.options()
	o.Every = 4 * time.Minute
	save, told := o.Save, map[string][]time.Time{} // gaps
	o.Save = func(ctx context.Context, place []byte) error {
		if unsaved.Load() {
			return errors.New("503 SlowDown")
		}
		return save(ctx, place)
	}
	tell := o.OnError
	o.OnError = func(err error) {
		defer tell(err) // which panics
		var gap *GapError
		if !errors.As(err, &gap) {
			return
		}
		told[gap.Shard] = append(told[gap.Shard], time.Now())
		d.mu.Lock()
		defer d.mu.Unlock()
		if ago := time.Since(d.well[gap.Shard]); ago < 23*time.Hour {
			t.Errorf("a gap of %s, which was read %v ago", gap.Shard, ago)
		}
	}
	var log []string
	var stop func()
	start := func() {
		s := d.flowing(t, o)
		d.fails = func(string) error {
			if refused.Load() {
				return errors.New("AccessDeniedException")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		stop = func() {
			cancel()
			<-ended
			stop = nil
		}
	}
	healthy := func() {
		if stop == nil || refused.Load() || unsaved.Load() || unburied.Load() {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.shards {
			sound := true
			for id := s.id; id != ""; id = d.all[id].parent {
				sound = sound && !d.all[id].refused
			}
			if sound {
				d.well[s.id] = time.Now()
			}
		}
	}
	// A place of which there was none at first misses nothing: let the first round be.
	start()
	d.pass(time.Hour, &g)
	healthy()
	for range 25 {
		d.mu.Lock()
		open := d.open()
		s := open[rng.IntN(len(open))]
		what := rng.IntN(10)
		log = append(log, fmt.Sprintf("%v %d %s", time.Now().Format("02 15:04"), what, s.id))
		switch what {
		case 0, 1:
			for range 1 + rng.IntN(3) {
				key := fmt.Sprintf("key-%03d", len(d.born))
				s.keys, d.born[key] = append(s.keys, key), time.Now()
			}
		case 2:
			s.closed, s.at = true, time.Now()
			for range 1 + rng.IntN(2) {
				d.add(s.id)
			}
		case 3:
			s.refused = !s.refused
		case 4:
			refused.Store(!refused.Load())
		case 5:
			unsaved.Store(!unsaved.Load())
		case 6:
			unburied.Store(!unburied.Load())
		}
		d.mu.Unlock()
		if what >= 7 {
			if stop != nil {
				stop()
			} else {
				start()
			}
		}
		d.pass([]time.Duration{20 * time.Minute, time.Hour, 5 * time.Hour, 12 * time.Hour, 26 * time.Hour}[rng.IntN(5)], &g)
		healthy()
	}
	d.mu.Lock()
	for _, f := range []*atomic.Bool{&refused, &unsaved, &unburied} {
		f.Store(false)
	}
	for _, s := range d.shards {
		s.refused = false
	}
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
	start()
	d.pass(time.Hour, &g)
	stop()
	for key := range d.born {
		shard := ""
		for id, s := range d.all {
			if slices.Contains(s.keys, key) {
				shard = id
			}
		}
		lost := d.lost[key]
		if !lost && !g.has(key) {
			t.Errorf("%s of %s was not handed over", key, shard)
		}
		tells := false
		for id, all := range told {
			tells = tells || d.kin(id, shard) && all[len(all)-1].After(d.born[key])
		}
		if lost && !tells {
			t.Errorf("%s of %s was lost, and no gap is told of but %v", key, shard, told)
		}
	}
	if t.Failed() {
		t.Logf("%s\nplace: %s", strings.Join(log, "\n"), g.place)
	}
}
