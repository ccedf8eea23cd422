package touches

import "time"

// flights counts the touches under way.
type flights struct {
	workers int  // how many of those that have waited may be, at once
	elastic bool // one that is late makes room for another
	running int
	carried int           // of those, the ones that have waited for their turn, and take a worker
	full    time.Time     // since when one could begin, but for the workers; zero: none
	wasFull time.Duration // how long that was so before
	most    int           // how many may be under way, of all, for one that waits to begin
}

const (
	defaultWorkers = 64
	mostInFlight   = 256
	slowStart      = 8 // touches more than are under way when those begin to be late
)

func (f *flights) init(workers int) {
	f.workers, f.elastic = workers, workers == 0
	if f.elastic {
		f.workers = defaultWorkers
	}
	f.grow(mostInFlight)
}

// free reports whether one of those that wait may begin.
func (f *flights) free() bool {
	return f.carried < f.workers && f.running < f.most
}

// grow lets by more touches be under way, or fewer. While touches are late it grows with those
// that land: a store that hangs must keep connections free for reads.
func (f *flights) grow(by int) {
	f.most = max(slowStart, min(f.most+by, max(f.workers, mostInFlight)))
}

func (f *flights) began(j *job) {
	f.running++
	if j.carried {
		f.carried++
	}
}

func (f *flights) wasLate(j *job) {
	j.late = true
	if f.elastic && j.carried {
		j.carried = false
		f.carried--
	}
}

func (f *flights) ended(j *job) {
	f.running--
	if j.carried {
		f.carried--
	}
}

// note says whether touches now wait for nothing but a worker, and returns for how long they have.
func (f *flights) note(full bool) time.Duration {
	now := time.Now()
	if !f.full.IsZero() {
		f.wasFull += now.Sub(f.full)
	}
	if f.full = (time.Time{}); full {
		f.full = now
	}
	return f.wasFull
}
