package main

import (
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// tally counts, for each session, how often this server read it and how often it saw
// that its expiry had been written.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]counts
}

type counts struct {
	reads, writes uint64
	stored, until time.Time // the expiry that was last seen, and the absolute timeout
}

// read counts a read of s at now.
func (t *tally) read(s session.Info, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, known := t.counts[s.ID]
	if !known {
		if t.counts == nil {
			t.counts = map[string]counts{}
		}
		for id, c := range t.counts {
			if now.After(c.until) {
				delete(t.counts, id)
			}
		}
		c.until = s.AbsoluteExpiry
	}
	if c.reads++; s.IdleExpiry.After(c.stored) {
		c.writes, c.stored = c.writes+1, s.IdleExpiry
	}
	t.counts[s.ID] = c
}

// of returns what was counted of the session with this ID.
func (t *tally) of(id string) (reads, writes uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts[id]
	return c.reads, c.writes
}
