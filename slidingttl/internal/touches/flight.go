package touches

import (
	"context"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// admit merges the access a into the touch that waits for its key, or creates one. waits reports
// whether the caller waits for it.
func (t *Touches) admit(ctx context.Context, a *Access, late <-chan struct{}, urgent bool) (j *job, waits bool) {
	t.lock()
	if t.halted {
		t.givenUp++
		t.mu.Unlock()
		t.broke(a)
		o := Outcome{Was: a.Was, Meta: a.Was, Err: ErrClosed, result: Failed}
		t.count(ctx, a, o, time.Time{})
		j = &job{done: make(chan struct{}), outcome: o}
		close(j.done)
		return j, true
	}
	held := false
	if urgent {
		t.budget.take()
	} else {
		held = t.pressure.any() || t.budget != nil && (t.Background || t.next.Len() > 0 || !t.budget.take())
	}
	queue := held || !urgent && (t.Background || ended(late))
	var shed *job
	s := t.slot(a.Key)
	merged := s.find(a.Was.CreatedAt)
	if j = merged; j != nil {
		j.merge(*a)
		if urgent || !queue && j.fails == 0 {
			t.unqueue(j)
		}
		t.fix(j)
	} else {
		j = t.newJob(s, a)
		s.waiting = append(s.waiting, j)
		if queue && !held && t.farthest.Len() >= t.Queue {
			t.Tally.Add(tally.QueueFull)
			queue = false // so that no other touch is shed
		}
		if queue {
			shed = t.enqueue(s, j)
		} else if s.running == nil {
			j.ctx = context.WithoutCancel(ctx)
		}
	}
	waits = urgent || !j.queued && j != shed && (s.running == nil || !s.running.late)
	if !j.queued && j != shed && s.running == nil {
		t.start(s, j)
	}
	t.dispatch()
	t.mu.Unlock()
	t.tell()
	if merged != nil {
		t.count(ctx, a, Outcome{result: Shared}, time.Time{})
	}
	if shed != nil {
		t.finish(shed)
	}
	return j, waits
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// start begins the job j of slot s. The slot's other jobs wait until it ends.
func (t *Touches) start(s *slot, j *job) {
	t.unqueue(j)
	s.waiting = slices.DeleteFunc(s.waiting, func(w *job) bool { return w == j })
	for _, w := range s.waiting {
		t.remove(w)
	}
	s.running, j.landings = j, t.pressure.landings
	t.flights.began(j)
	go t.run(s, j)
}

func (t *Touches) run(s *slot, j *job) {
	deepen(0)
	ctx, cancel := context.WithTimeout(j.ctx, t.Timeout)
	defer cancel()
	defer context.AfterFunc(t.stop, cancel)()
	if t.Wait > 0 {
		defer time.AfterFunc(t.Wait, func() { t.wasLate(s, j) }).Stop()
	}
	sent := t.sent()
	if j.lead != nil {
		j.outcome = j.lead(ctx)
		j.outcome.tried = j.outcome.Err == nil
	} else if !t.servedSince(j) {
		j.outcome = t.touch(ctx, &j.Access, j.readFirst, j.waited)
	}
	ends := t.end(s, j)
	defer func() { // also if a hook calls runtime.Goexit
		for _, e := range ends {
			close(e.done)
			t.active.Done()
		}
	}()
	for _, e := range ends {
		switch {
		case e != j:
			t.count(e.ctx, &e.Access, e.outcome, time.Time{})
		case j.lead == nil:
			t.count(e.ctx, &e.Access, e.outcome, sent)
		case j.outcome.tried:
			t.Tally.Add(tally.Due)
			t.count(e.ctx, &Access{Key: j.Key, Was: j.outcome.Was}, e.outcome, sent)
		}
	}
	t.tell()
}

func (t *Touches) wasLate(s *slot, j *job) {
	t.lock()
	if s.running == j {
		t.flights.wasLate(j)
		if was := t.pressure.Late; t.pressure.wasLate() && !was {
			t.flights.most = t.flights.running + slowStart
		}
		t.watch()
		t.dispatch()
	}
	t.mu.Unlock()
	t.tell()
}

// end ends j, and returns it with the jobs of its key that ended with it.
func (t *Touches) end(s *slot, j *job) (ends []*job) {
	t.lock()
	defer t.mu.Unlock()
	o := j.outcome
	s.running = nil
	t.flights.ended(j)
	if o.failed() && !t.Strict {
		t.flights.grow(-1)
		t.pressure.failed(j.landings)
		t.watch()
	} else if !o.tried {
		t.pressure.probed = time.Time{} // it says nothing about the store
	} else if !t.Strict {
		if t.pressure.landed(j.late) {
			t.wakeAll()
		}
		if t.flights.grow(1); !t.pressure.Late {
			t.flights.grow(mostInFlight)
		}
	}
	ends = append(ends, j)
	var again *job
	switch {
	case o.Err == ErrClosed:
		t.givenUp++
	case j.lead != nil || !o.failed() || t.Strict || t.closing && (t.pressure.Failing || j.fails > 0):
	default:
		again = t.newJob(s, &j.Access)
		again.fails, again.waited, again.readFirst = j.fails+1, j.waited, true
		if j.landings < t.pressure.back {
			again.fails = 1 // the store has recovered since
		}
		t.Tally.Add(tally.Retried)
	}
	if o.result >= Failed && again == nil && j.lead == nil {
		t.broke(&j.Access)
	}
	waiting := s.waiting
	s.waiting = nil
	for _, w := range waiting {
		switch {
		case again != nil && w.Was.CreatedAt == again.Was.CreatedAt:
			again.merge(w.Access)
		case !w.covered(o, t.ByValue):
			s.waiting = append(s.waiting, w)
			continue
		}
		t.unqueue(w)
		w.outcome = o
		w.outcome.result = Shared
		ends = append(ends, w)
	}
	if again != nil {
		s.waiting = append(s.waiting, again)
		t.rest(again)
		if shed := t.enqueue(s, again); shed != nil {
			ends = append(ends, shed)
		}
	}
	t.resume(s)
	if t.pressure.Failing && o.failed() && j.probe {
		ends = append(ends, t.refuse(o.Err)...)
	}
	t.dispatch()
	return ends
}

// resume starts the slot's next job, or queues its jobs again.
func (t *Touches) resume(s *slot) {
	if i := slices.IndexFunc(s.waiting, func(w *job) bool { return !w.queued }); i >= 0 {
		t.start(s, s.waiting[i])
		return
	}
	for _, w := range s.waiting {
		t.add(w)
	}
	if len(s.waiting) == 0 {
		delete(t.keys, s.key)
	}
}

// finish ends a job that was never sent.
func (t *Touches) finish(j *job) {
	defer t.active.Done()
	defer close(j.done)
	t.count(j.ctx, &j.Access, j.outcome, time.Time{})
}
