package touches

import "time"

// limits bounds the touches from the queue that run at once.
type limits struct {
	workers int           // how many may
	elastic bool          // and one more for each that is late
	running int           // touches under way, from the queue or not
	reads   int           // of those, read and touch in one
	queued  int           // of those, from the queue
	late    int           // of these, late
	retries int           // of those, that failed before
	firsts  int           // that began since the last that had failed before
	tries   int           // of those under way, that began by Touches.tryWait
	moved   time.Time     // when another one from the queue began or ended last
	most    int           // a touch from the queue begins while fewer than this run
	full    time.Time     // since when touches wait only for a worker; zero: none do
	crowded time.Time     // when they did last
	wasFull time.Duration // how long they did before
}

const (
	defaultWorkers = 64
	mostInFlight   = 256
	leastInFlight  = 8 // from the queue, whatever else runs
	retryShare     = 8 // one in so many touches, and workers, may be for what failed before
)

func newLimits(workers int) limits {
	l := limits{workers: workers, elastic: workers == 0}
	if l.elastic {
		l.workers = defaultWorkers
	}
	l.grow(mostInFlight)
	return l
}

// hasWorker reports whether there is a worker for a touch from the queue.
func (l *limits) hasWorker() bool {
	workers := l.workers
	if l.elastic {
		workers += l.late
	}
	return l.queued < workers
}

// isFull reports whether so many touches run, besides tries, that one from the queue may begin only as
// a try.
func (l *limits) isFull() bool { return l.running-l.tries >= l.most && l.queued >= leastInFlight }

// grow changes most by by. While touches are late, most grows only with those that land: if the
// store hangs, connections must stay free for reads.
func (l *limits) grow(by int) {
	l.most = max(leastInFlight, min(l.most+by, max(l.workers, mostInFlight)))
}

// slowStart lets few more touches run than now.
func (l *limits) slowStart() {
	l.most = 0
	l.grow(l.running + leastInFlight)
}

// add counts n as one more, or less, under way.
func (l *limits) add(n *touch, by int) {
	l.running += by
	if n.readTouch != nil {
		l.reads += by
	}
	if n.try {
		l.tries += by
	} else if n.waited {
		l.moved = time.Now()
	}
	if n.fails > 0 {
		l.retries, l.firsts = l.retries+by, 0
	} else if by > 0 {
		l.firsts++
	}
	if n.waited {
		l.queued += by
		if n.late {
			l.late += by
		}
	}
}

// share is how many workers are enough for touches that probably fail.
func (l *limits) share() int { return max(1, l.workers/retryShare) }

// mayRetry reports whether a touch that failed before may go ahead of those that did not.
func (l *limits) mayRetry() bool { return l.retries < l.share() }

func (l *limits) wasLate(n *touch) {
	n.late = true
	if n.waited {
		l.late++
	}
}

// note records whether touches now wait only for a worker, and returns for how long they have so
// far.
func (l *limits) note(full bool) time.Duration {
	now := time.Now()
	if !l.full.IsZero() {
		l.wasFull += now.Sub(l.full)
	}
	if l.full = (time.Time{}); full {
		l.full = now
	}
	return l.wasFull
}
