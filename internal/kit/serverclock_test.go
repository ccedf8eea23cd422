package kit_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// server is a clock that is ahead of the process's by offset.
type server struct{ offset time.Duration }

// ask asks for the time, over a network that takes so long each way.
func (s *server) ask(c *kit.ServerClock, there, back time.Duration) kit.ServerTime {
	t := kit.ServerTime{Sent: time.Now(), Step: time.Microsecond}
	time.Sleep(there)
	t.At = time.Now().Add(s.offset)
	time.Sleep(back)
	t.Got = time.Now()
	c.Observe(t)
	return t
}

func TestServerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c kit.ServerClock
		s := server{offset: 10 * time.Minute}
		within := func(when string, offset, most time.Duration) {
			t.Helper()
			if off := time.Until(c.Now()) - offset; off.Abs() > most {
				t.Errorf("%s: the time is off by %v; want %v at most", when, off, most)
			}
		}
		if c.Known() {
			t.Error("it is known before an answer came")
		}
		within("before an answer", 0, 0)
		s.ask(&c, 30*time.Millisecond, time.Millisecond)
		within("a slow question", s.offset, 15*time.Millisecond)
		s.ask(&c, time.Millisecond, 30*time.Millisecond)
		within("a slow answer", s.offset, time.Millisecond+time.Microsecond)
		s.ask(&c, 50*time.Millisecond, 0)
		within("a slower question", s.offset, time.Millisecond+time.Microsecond)

		// What is known ages, at 200 µs a second: after 1,000 s an answer may say 100 ms more.
		time.Sleep(1000 * time.Second)
		s.offset += 100 * time.Millisecond
		s.ask(&c, 0, 300*time.Millisecond)
		within("two clocks that part", s.offset, 151*time.Millisecond)
		s.ask(&c, 0, 0)
		within("a quick answer", s.offset, time.Microsecond)

		for _, set := range []time.Duration{0, -time.Hour, time.Hour} {
			s.offset = set
			s.ask(&c, time.Millisecond, time.Millisecond)
			within("a clock that was set", set, time.Millisecond)
		}
		earliest, latest := c.Bounds()
		if now := c.Now(); earliest != driver.Floor(now) || latest != driver.Ceil(now) {
			t.Errorf("Bounds are %d and %d at %d", earliest, latest, now.UnixMilli())
		}
	})
}

// An answer that was on its way while the server's clock was set says nothing any more.
func TestServerClockOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c kit.ServerClock
		at := time.Now()
		before := kit.ServerTime{Sent: at, Got: at, At: at.Add(time.Hour)}
		time.Sleep(time.Second)
		s := server{}
		s.ask(&c, 0, 0)
		c.Observe(before)
		if off := time.Until(c.Now()); off.Abs() > time.Microsecond {
			t.Errorf("the time is off by %v", off)
		}
	})
}

func TestServerClockIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c kit.ServerClock
		s := server{}
		count := func(asks func() bool) (n int) {
			var mu sync.Mutex
			var group sync.WaitGroup
			for range 10 {
				group.Go(func() {
					if asks() {
						mu.Lock()
						n++
						mu.Unlock()
					}
				})
			}
			group.Wait()
			return n
		}
		want := func(when string, due, overdue int) {
			t.Helper()
			if n := count(c.Overdue); n != overdue {
				t.Errorf("%s: %d of 10 writes ask first; want %d", when, n, overdue)
			}
			if n := count(c.Due); n != due {
				t.Errorf("%s: %d of 10 statements ask; want %d", when, n, due)
			}
		}
		want("nothing is known", 1, 10)
		s.ask(&c, 0, 0)
		want("at once", 0, 0)
		time.Sleep(time.Second)
		want("a second later", 1, 0)
		time.Sleep(30 * time.Second)
		want("half a minute later", 0, 1)
	})
}

func TestServerTimeCheckSkew(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		offset time.Duration
		says   string // empty: nothing
	}{
		"alike":                       {},
		"as far ahead as allowed":     {offset: -10 * time.Second},
		"as far behind as allowed":    {offset: 10 * time.Second},
		"perhaps too far ahead":       {offset: -12 * time.Second},
		"too far ahead, surely":       {offset: -15 * time.Second, says: "at least 12s ahead of the server's"},
		"too far behind, surely":      {offset: 11 * time.Second, says: "at least 11s behind the server's"},
		"a step and a trip too ahead": {offset: -13*time.Second - time.Millisecond, says: "at least 10.001s ahead of the server's"},
	} {
		answer := kit.ServerTime{Sent: at.Add(-2 * time.Second), Got: at, At: at.Add(tt.offset), Step: time.Second}
		err := answer.CheckSkew("the server", 10*time.Second)
		if (err == nil) != (tt.says == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v; want %q", name, err, tt.says)
		}
	}
}
