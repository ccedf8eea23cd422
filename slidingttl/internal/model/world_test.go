package model

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// kind of store that the backend simulates, or the memory driver.
type store int

const (
	plain store = iota
	batch
	upserts
	clocked // has a clock, the server's
	stale   // its reads may be stale
	decides // its server reads and touches in one trip
	pairs   // a read and a touch can be sent to it together
	local   // the memory driver
	stores
)

func (s store) String() string {
	return [...]string{"plain", "batch", "upserts", "clocked", "stale", "decides", "pairs", "local"}[s]
}

// world is one history.
type world struct {
	seed uint64
	told bool // keep a story of what happens
	dice dice
	plan

	mu        sync.Mutex // guards the rest
	truth     map[string]timeline
	byVersion map[driver.Version]value
	drawn     map[string]uint64 // calls of drivers, to draw what happens to each
	log       map[string][]entry
	lastID    int
	version   driver.Version
	processes []*process
	opened    []*incarnation
	memory    *memory.Driver[value]
	late      sync.WaitGroup // calls of drivers, and writes that were given up
	broken    []string
	firstKey  string // of broken
	calls     int    // of clients
}

// plan is what is drawn for a whole history.
type plan struct {
	store               store
	step                time.Duration // the resolution
	bumps               bool          // a touch changes the version
	deletes             time.Duration // how late the backend deletes at most; negative: never
	retain              time.Duration // local: how long the memory driver holds the dead
	trip                time.Duration // each way, at most
	slow                time.Duration // now and then
	faults              int           // one write in so many fails; 0: none
	outages             time.Duration // length of outages, in which every touch fails, and of the time between them
	lost                int           // one write in so many loses its answer; 0: none
	stale               time.Duration // how old a stale read may be
	maxSkew             time.Duration // the effective Options.MaxSkew
	explicit            bool          // Options.MaxSkew is set
	foreign             slidingttl.Foreign
	plants              bool // another program writes too
	ownClock            bool // the processes have their own clocks
	policyOf, policyFor bool
	mixed               bool // processes differ in their policies
	changing            bool // they change them
	wraps               bool // some keys belong to a wrapped repository
	keys                []string
	idle                time.Duration // the longest idle grace
}

// entry is a line of a key's history.
type entry struct {
	at   time.Time
	text string
}

// note adds to the history of key. The text is made only for a failure.
func (w *world) note(key, format string, args ...any) {
	if w.told {
		w.log[key] = append(w.log[key], entry{time.Now(), fmt.Sprintf(format, args...)})
	}
}

// violated records that a promise was broken.
func (w *world) violated(promise int, key, format string, args ...any) {
	text := fmt.Sprintf("promise %d: key %s: %s", promise, key, fmt.Sprintf(format, args...))
	w.note(key, "VIOLATED %s", text)
	if len(w.broken) == 0 {
		w.firstKey = key
	}
	w.broken = append(w.broken, text)
}

// luck is the random source for the next call of that kind.
func (w *world) luck(process int, op, key string) dice {
	id := fmt.Sprint(process, op, key)
	w.drawn[id]++
	return w.dice.fork(text(id), w.drawn[id])
}

func (w *world) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %+v\n", w.seed, w.plan)
	for _, p := range w.processes {
		fmt.Fprintf(&b, "process %d: clock %v, %+v\n", p.id, p.skew, p.opts)
		for _, t := range p.tables {
			fmt.Fprintf(&b, "  from %s: %+v\n", t.from.Format("05.000000000"), t.of)
		}
	}
	return b.String()
}

// story is what happened to the key of the first violation, and under which conditions.
func (w *world) story() string {
	var b strings.Builder
	b.WriteString(w.describe())
	for _, e := range w.log[w.firstKey] {
		fmt.Fprintf(&b, "%d.%06d %s\n", e.at.UnixMilli(), e.at.Nanosecond()%1e6, e.text)
	}
	return b.String()
}
