package slidingttl

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A closed gate is empty once all calls have left, whatever stripe they began in and wherever their
// stacks are then. It lets none in.
func TestGate(t *testing.T) {
	for range 5 {
		var g gate
		g.init()
		var inside atomic.Int64
		var begun, all sync.WaitGroup
		for range 16 {
			begun.Add(1)
			all.Add(1)
			go func() {
				defer all.Done()
				for first := true; ; first = false {
					call := g.enter()
					if call != nil {
						inside.Add(1)
					}
					if first {
						begun.Done()
					}
					if call == nil {
						return
					}
					grow(20)
					inside.Add(-1)
					g.leave(call)
				}
			}()
		}
		begun.Wait()
		g.close()
		<-g.empty
		if n := inside.Load(); n != 0 || g.under() != 0 {
			t.Fatalf("%d calls under way, %d counted, at an empty gate", n, g.under())
		}
		all.Wait()
		if g.enter() != nil {
			t.Fatal("a closed gate let a call in")
		}
	}
}

// grow moves the goroutine's stack.
func grow(depth int) (n byte) {
	var frame [1 << 10]byte
	if depth > 0 {
		n = grow(depth - 1)
	}
	return n + frame[depth]
}
