package touches

import "time"

// State is the state of a store's touches.
type State struct {
	Late       bool // touches take longer than reads wait, so that reads do not wait for them
	Failing    bool // the store does not take touches: they wait, and one at a time is tried
	OverBudget bool // touches go faster than the budget, or records would die
}

// pressure tells late from failing. Being late ends a read's wait, and is no reason to
// hold touches back.
type pressure struct {
	State
	lates    int       // touches in a row that were late; negative: that were not
	fails    int       // that failed, with none landing while they were under way
	landings int       // touches that landed so far
	back     int       // of those, when the store was back last
	since    time.Time // when the store began to fail
	trouble  time.Time // when one was late or failed last
	probed   time.Time // when one was tried last while the store fails
	calm     *time.Timer
}

const (
	run       = 5                // touches in a row that change the state
	calmAfter = 30 * time.Second // without trouble, and with nothing that waits to find out by
)

func (p *pressure) any() bool { return p.Late || p.Failing }

// wasLate notes a touch that takes longer than a read waits, and returns Late.
func (p *pressure) wasLate() bool {
	p.trouble, p.lates = time.Now(), max(0, p.lates)+1
	p.Late = p.Late || p.lates >= run
	return p.Late
}

// landed notes a touch that the store took, and reports whether others that rest are to wake.
func (p *pressure) landed(late bool) (recovered bool) {
	recovered = p.Failing && time.Since(p.since) >= shortestRest
	p.fails, p.Failing = 0, false
	if p.landings++; recovered {
		p.back = p.landings
	}
	if !late {
		p.lates = min(0, p.lates) - 1
		p.Late = p.Late && p.lates > -run && !recovered
	}
	return recovered
}

// failed notes a touch that the store did not take, sent when landings touches had landed. Only
// if none has since does it say that the store is down.
func (p *pressure) failed(landings int) {
	p.trouble = time.Now()
	if landings != p.landings {
		return
	}
	if p.fails++; p.fails >= run && !p.Failing {
		p.Failing, p.since = true, p.trouble
	}
}

// watch has the state end after a while without trouble, where no touch comes to end it.
func (t *Touches) watch() {
	if p := &t.pressure; !p.any() || t.closing {
		return
	} else if p.calm == nil {
		p.calm = time.AfterFunc(calmAfter, t.calm)
	} else {
		p.calm.Reset(calmAfter)
	}
}

func (t *Touches) calm() {
	t.mu.Lock()
	p := &t.pressure
	if time.Since(p.trouble) >= calmAfter && t.waiting == 0 {
		p.Late, p.Failing, p.lates, p.fails = false, false, 0, 0
		t.flights.grow(mostInFlight)
	} else {
		t.watch()
	}
	t.mu.Unlock()
	t.tell()
}

// tell calls Changed after a change of the state. If another goroutine is calling it already,
// that one picks this change up.
func (t *Touches) tell() {
	t.mu.Lock()
	state := t.pressure.State
	if t.telling || state == t.told {
		t.mu.Unlock()
		return
	}
	t.telling, t.told = true, state
	t.mu.Unlock()
	defer func() { // also where a hook ends its goroutine
		t.mu.Lock()
		t.telling = false
		t.mu.Unlock()
		t.tell()
	}()
	t.Changed(state)
}
