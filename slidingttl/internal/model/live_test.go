package model

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// live runs the clients of all processes, and closes the stores.
func (w *world) live(t *testing.T) {
	d := w.dice.fork(1) // later draws do not depend on how many there are here
	time.Sleep(d.upTo(time.Second))
	if w.store == local {
		m, err := memory.New(&memory.Options[value]{Retain: w.retain})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w.memory = m
	}
	var clients sync.WaitGroup
	for _, p := range w.processes {
		p.tables[0].from = time.Now()
		if err := p.open(); err != nil {
			t.Fatalf("seed %d: %v\n%s", w.seed, err, w.describe())
		}
		for range 1 + d.n(3) {
			c := &client{world: w, p: p, dice: d.fork(d.next()), seen: map[string]slidingttl.Entry[value]{}}
			clients.Go(func() { c.run(40) })
		}
	}
	clients.Wait()
	for _, p := range w.processes {
		p.i.close(context.Background())
	}
	w.late.Wait()
	time.Sleep(time.Nanosecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.opened {
		w.settle(i)
		i.audit()
	}
}
