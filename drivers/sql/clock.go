package sql

import (
	"context"
	"math"
	"time"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Now implements driver.Clock: the time by the database's clock. It is exact to about half
// the shortest round trip. Before the first answer it is the system's time. About once a
// second a read asks for the time, and so does every read that touches.
func (t *table) Now() time.Time { return t.clock.Now() }

// Bounds implements driver.Clock.
func (t *table) Bounds() (earliest, latest driver.Instant) { return t.clock.Bounds() }

// Learn implements driver.Learner, with one SELECT if the time is unknown or half a minute
// old.
func (t *table) Learn(ctx context.Context) error {
	if !t.clock.Overdue() {
		return nil
	}
	_, err := t.ask(ctx)
	return err
}

// ask asks the database for its time and nothing else.
func (t *table) ask(ctx context.Context) (kit.ServerTime, error) {
	var millis int64
	sent := time.Now()
	if _, err := firstRow(ctx, t.reader(ctx), "SELECT "+t.dialect.clock(), nil, []any{&millis}); err != nil {
		return kit.ServerTime{}, t.failed(ctx, err)
	}
	return t.observe(sent, millis), nil
}

// observe updates the clock from the answer to a statement that was sent at sent.
func (t *table) observe(sent time.Time, millis int64) kit.ServerTime {
	answer := kit.ServerTime{Sent: sent, Got: time.Now(), At: time.UnixMilli(millis), Step: time.Millisecond}
	t.clock.Observe(answer)
	return answer
}

// judge is the time that a call's conditions use. by is nil for the database's time when the
// statement has its row, or the time of a caller with another clock.
type judge struct {
	t  *table
	by any
}

func (t *table) judge(ctx context.Context, now driver.Instant) judge {
	if driver.OtherClock(ctx) {
		return judge{t, int64(now)}
	}
	return judge{t, nil}
}

// longPast is how far behind the database's time, in milliseconds, the now of a Remove must be to
// mean a past moment at which the record was alive. Callers that remove dead records pass such a
// time.
const longPast = 500

// judgePast is judge for a Remove.
func (t *table) judgePast(ctx context.Context, now driver.Instant) judge {
	if driver.Floor(t.Now())-now > longPast {
		return judge{t, int64(now)}
	}
	return t.judge(ctx, now)
}

// now returns that time, as this process knows it.
func (j judge) now() driver.Instant {
	if now, ok := j.by.(int64); ok {
		return driver.Instant(now)
	}
	return driver.Floor(j.t.Now())
}

// during returns the arguments of BETWEEN for a write that may land at these times.
func (j judge) during(s period) []any { return []any{j.by, int64(s.from), int64(s.to)} }

// period is the time from from to to, both included.
type period struct{ from, to driver.Instant }

func (s period) has(at driver.Instant) bool { return s.from <= at && at <= s.to }

// alive is when a record with that expiry is alive.
func alive(expiry driver.Instant) period {
	if expiry == 0 {
		return period{0, driver.MaxInstant}
	}
	return period{0, expiry - 1}
}

// until is s as far as a life that it writes has not ended. Another clock may write any life.
func (j judge) until(s period, life driver.Life) period {
	if j.by == nil {
		s.to = min(s.to, alive(life.ExpiresAt).to)
	}
	return s
}

// born returns the arguments of the condition that a new life which ends at expiry has not ended.
// Another clock may write any life.
func (j judge) born(expiry driver.Instant) []any {
	if expiry == 0 || j.by != nil {
		return []any{j.by, int64(math.MaxInt64)}
	}
	return []any{j.by, int64(expiry)}
}

// late reports whether a new life that ends at expiry, and was not written, has ended. found is the
// error of a read of the key, whose row carries the time.
func (j judge) late(ctx context.Context, expiry driver.Instant, found error) bool {
	if expiry == 0 || j.by != nil {
		return false
	}
	if found != nil {
		_, _ = j.t.ask(ctx)
	}
	return expiry <= j.now()
}
