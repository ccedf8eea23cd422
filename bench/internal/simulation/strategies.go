package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// node is one app server.
type node interface {
	// get reads key i as its strategy does, and returns false if it is dead.
	get(i int) (bool, error)
	// signIn creates key i.
	signIn(i int) error
	close() error
}

// strategy is a way of keeping records alive.
type strategy struct {
	name string
	// every is how long it leaves a record that it has written, slack by how much
	// the stored expiry runs past the promise.
	every, slack func(idle time.Duration) time.Duration
	// apart: a node does not see what the others wrote.
	apart bool
	// open returns a node, which wrote the records when wrote says.
	open func(b *backend, slack time.Duration, wrote []driver.Instant) (node, error)
}

func percent(p time.Duration) func(time.Duration) time.Duration {
	return func(idle time.Duration) time.Duration { return idle * p / 100 }
}

const (
	naiveName  = "naive: touch on every read"
	flightName = "singleflight only"
	localName  = "throttled by local knowledge"
	ownExact   = "slidingttl, exact"
	own1       = "slidingttl, slack 1 %"
	own10      = "slidingttl, slack 10 %"
)

var strategies = []strategy{
	{naiveName, percent(0), percent(0), false, openNaive},
	{flightName, percent(0), percent(0), false, openFlights},
	{localName, percent(10), percent(0), true, openThrottled},
	{ownExact, func(time.Duration) time.Duration { return resolution }, percent(0), false, openOwn},
	{own1, percent(1), percent(1), false, openOwn},
	{own10, percent(10), percent(10), false, openOwn},
}

// naive touches on every read.
type naive struct{ b *backend }

func openNaive(b *backend, _ time.Duration, _ []driver.Instant) (node, error) { return &naive{b}, nil }

func (n *naive) get(i int) (bool, error) {
	l := n.b.read(i)
	if !n.b.alive(l, now()) {
		return false, nil
	}
	return true, n.touch(i, l)
}

// touch writes the deadline, rounded up to spare the contestant that blame, on no
// condition but that the record is there.
func (n *naive) touch(i int, l driver.Life) error {
	to := n.b.deadline(l.CreatedAt, now()).RoundUp(resolution)
	return n.b.touch(i, func(r *record) error {
		if r.CreatedAt == l.CreatedAt {
			r.ExpiresAt = to
		}
		return nil
	})
}

func (n *naive) signIn(i int) error {
	at := now()
	err := n.b.insert(i, driver.Life{CreatedAt: at, ExpiresAt: n.b.deadline(at, at).RoundUp(resolution)}, at)
	if errors.Is(err, driver.ErrConflict) {
		return nil // another sign-in was faster
	}
	return err
}

func (n *naive) close() error { return nil }

// flights shares the read and the touch among those on a node who want the same key
// at the same time.
type flights struct {
	naive
	group singleflight.Group
}

func openFlights(b *backend, _ time.Duration, _ []driver.Instant) (node, error) {
	return &flights{naive: naive{b}}, nil
}

type landing struct {
	life     driver.Life
	answered driver.Instant
}

func (f *flights) get(i int) (bool, error) {
	began := now()
	v, err, _ := f.group.Do(key(i), func() (any, error) {
		l := landing{life: f.b.read(i), answered: now()}
		if !f.b.alive(l.life, l.answered) {
			return l, nil
		}
		return l, f.touch(i, l.life)
	})
	l := v.(landing)
	if began > l.answered {
		f.b.accessed(i, l.life, began)
	}
	return f.b.alive(l.life, max(began, l.answered)), err
}

// throttled touches a key when this node has not for a while. It knows nothing of
// the other nodes' touches, and adds nothing to what it writes.
type throttled struct {
	naive
	every time.Duration

	mu   sync.Mutex       // guards last
	last []driver.Instant // by key
}

func openThrottled(b *backend, _ time.Duration, wrote []driver.Instant) (node, error) {
	return &throttled{naive: naive{b}, every: b.limits.idle / 10, last: wrote}, nil
}

func (t *throttled) get(i int) (bool, error) {
	l := t.b.read(i)
	at := now()
	if !t.b.alive(l, at) {
		return false, nil
	}
	t.mu.Lock()
	due := t.last[i].Add(t.every) <= at
	if due {
		t.last[i] = at
	}
	t.mu.Unlock()
	if !due {
		return true, nil
	}
	return true, t.touch(i, l)
}

// own is a slidingttl.Store over the backend, in its default mode: the read that
// finds a touch due waits for it.
type own struct{ *slidingttl.Store[int] }

func openOwn(b *backend, slack time.Duration, _ []driver.Instant) (node, error) {
	s, err := slidingttl.New(remote{b}, slidingttl.Policy{
		IdleGrace:   b.limits.idle,
		MaxLifetime: b.limits.life,
		Slack:       slack,
	}, nil)
	return own{s}, err
}

func (o own) get(i int) (bool, error) {
	_, err := o.Get(context.Background(), key(i))
	if errors.Is(err, slidingttl.ErrNotFound) {
		return false, nil
	}
	return true, err
}

func (o own) signIn(i int) error {
	err := o.Insert(context.Background(), key(i), i)
	if errors.Is(err, slidingttl.ErrExists) {
		return nil // another sign-in was faster
	}
	return err
}

func (o own) close() error { return o.Close(context.Background()) }
