package touches

import "time"

// flights counts the touches under way.
type flights struct {
	workers int  // limit on queued touches that run at once
	elastic bool // a late touch gives its worker to another
	running int
	carried int           // of those, the ones that were queued and hold a worker
	full    time.Time     // since when touches wait only for a worker; zero: none do
	wasFull time.Duration // how long they did before
	most    int           // a queued touch begins only while fewer than this run
}

const (
	defaultWorkers = 64
	mostInFlight   = 256
	slowStart      = 8 // how many more than run now may run once touches are late
)

func (f *flights) init(workers int) {
	f.workers, f.elastic = workers, workers == 0
	if f.elastic {
		f.workers = defaultWorkers
	}
	f.grow(mostInFlight)
}

// free reports whether a queued touch may begin.
func (f *flights) free() bool {
	return f.carried < f.workers && f.running < f.most
}

// grow changes most by by. While touches are late, most grows only with those that land: if the
// store hangs, connections must stay free for reads.
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

// note records whether touches now wait only for a worker, and returns for how long they have so
// far.
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
