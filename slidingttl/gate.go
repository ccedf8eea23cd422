package slidingttl

import (
	"sync"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// gate counts the calls under way and lets none in once it is closed. The calls of different
// goroutines are counted apart, so that they do not contend.
type gate struct {
	closed  atomic.Bool
	stripes [tally.Stripes]stripe
	once    sync.Once
	empty   chan struct{} // closed when the gate is and no call is under way
}

// stripe counts the calls that began in it. They also end in it, even if their goroutine's stack
// has moved: so a closed stripe that has been empty once stays empty.
type stripe struct {
	_     [120]byte    // stripes share no cache line
	calls atomic.Int64 // calls under way, or those and gateClosed
}

const gateClosed = 1 << 62

func (g *gate) init() { g.empty = make(chan struct{}) }

// enter lets a call in, to be ended with leave. Nil: the gate is closed.
func (g *gate) enter() *stripe {
	if g.closed.Load() {
		return nil
	}
	s := &g.stripes[tally.Stripe()]
	if s.calls.Add(1) < gateClosed {
		return s
	}
	g.leave(s)
	return nil
}

func (g *gate) leave(s *stripe) {
	if s.calls.Add(-1) == gateClosed {
		g.check()
	}
}

func (g *gate) close() {
	g.closed.Store(true)
	for i := range g.stripes {
		g.stripes[i].calls.Or(gateClosed)
	}
	g.check()
}

// check closes empty if no call is under way.
func (g *gate) check() {
	for i := range g.stripes {
		if g.stripes[i].calls.Load() != gateClosed {
			return
		}
	}
	g.once.Do(func() { close(g.empty) })
}

// left returns how many calls keep the gate from being empty.
func (g *gate) left() int {
	select {
	case <-g.empty: // those counted now are being refused
		return 0
	default:
		return g.under()
	}
}

// under returns how many calls are under way.
func (g *gate) under() (n int) {
	for i := range g.stripes {
		n += int(g.stripes[i].calls.Load() &^ gateClosed)
	}
	return n
}
