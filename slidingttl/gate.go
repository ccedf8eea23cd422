package slidingttl

import (
	"sync"
	"sync/atomic"
)

// gate counts the calls under way and lets none in once it is closed.
type gate struct {
	state atomic.Int64 // calls under way, or those and gateClosed
	once  sync.Once
	empty chan struct{} // closed when the gate is and no call is under way
}

const gateClosed = 1 << 62

func (g *gate) init() { g.empty = make(chan struct{}) }

// enter lets a call in, to be ended with leave. False: the gate is closed.
func (g *gate) enter() bool {
	if g.state.Add(1) < gateClosed {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() { g.check(g.state.Add(-1)) }

func (g *gate) isClosed() bool { return g.state.Load() >= gateClosed }

func (g *gate) close() { g.check(g.state.Or(gateClosed) | gateClosed) }

func (g *gate) check(state int64) {
	if state == gateClosed {
		g.once.Do(func() { close(g.empty) })
	}
}

// under returns how many calls are under way.
func (g *gate) under() int { return int(g.state.Load() &^ gateClosed) }
