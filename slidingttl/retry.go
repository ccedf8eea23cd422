package slidingttl

import (
	"context"
	"sync"
	"time"
)

// parked are touches that failed while the breaker was closed, to be tried again if
// it opens. Its zero value is ready for use.
type parked struct {
	mu  sync.Mutex // guards all
	all []*queued
}

// parkedMost bounds them: more failures than that open the breaker.
const parkedMost = breakerLeast * breakerRun

func (p *parked) add(w *queued) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= parkedMost {
		p.all = p.all[1:]
	}
	p.all = append(p.all, w)
}

func (p *parked) take() []*queued {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = nil
	return all
}

// later keeps a, which failed, for when the store has recovered: it waits if the breaker
// is open, or was when it was sent, and is parked in case that opens soon. False: it was
// only parked.
func (t *toucher) later(ctx context.Context, a access) bool {
	d := &t.drain
	if d.breaker == nil || d.isClosing() {
		return false
	}
	a.fails++
	if a.probes || d.breaker.open() {
		return t.push(ctx, a, true)
	}
	d.parked.add(newQueued(ctx, a))
	return false
}

// breakerChanged follows the breaker. What failed shortly before it opened is not lost.
func (t *toucher) breakerChanged(open bool) {
	if open {
		for _, w := range t.drain.parked.take() {
			if time.Since(w.since) < breakerWindow {
				t.stats.add(cRetried)
				t.push(w.ctx, w.access, true)
			}
		}
	}
	t.hooks.breaker(open)
}
