package redis

import (
	"testing"
	"time"
)

// Many answers tell the offset better than one, drift widens what is known, and a clock
// that was set is believed.
func TestServerClock(t *testing.T) {
	var c serverClock
	start := time.Now()
	learn := func(after, offset, before, behind time.Duration) {
		c.learn(bounds{least: offset - before, most: offset + behind, at: start.Add(after)})
	}
	within := func(when string, offset, most time.Duration) {
		t.Helper()
		if off := (c.offset() - offset).Abs(); off > most {
			t.Errorf("%s: the offset is off by %v; want %v at most", when, off, most)
		}
	}
	learn(0, time.Hour, 30*time.Millisecond, time.Millisecond)
	within("a slow answer", time.Hour, 15*time.Millisecond)
	learn(time.Second, time.Hour, time.Millisecond, 30*time.Millisecond)
	within("one slow the other way", time.Hour, time.Millisecond)
	learn(2*time.Second, time.Hour, 50*time.Millisecond, 10*time.Millisecond)
	within("a worse one", time.Hour, time.Millisecond)
	if wide := c.known.Load(); wide.most-wide.least < 2*time.Millisecond+2*parted(time.Second) {
		t.Errorf("after a second it is known to %v as before", wide.most-wide.least)
	}
	learn(3*time.Second, 2*time.Hour, time.Millisecond, time.Millisecond)
	within("a clock that was set", 2*time.Hour, 0)
}

// The time is asked for once a second, by one of those who come.
func TestServerClockIsAskedOnce(t *testing.T) {
	var c serverClock
	if !c.due() || c.due() || c.due() {
		t.Error("the time is to be asked for once")
	}
	c.asked.Store(c.asked.Load() - int64(timeEvery))
	if !c.due() || c.due() {
		t.Error("a second later the time is to be asked for once more")
	}
}
