package sql

import (
	"context"
	"math"
	"time"

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
func (t *table) ask(ctx context.Context) (driver.ServerTime, error) {
	var millis int64
	sent := time.Now()
	if _, err := firstRow(ctx, t.reader(ctx), "SELECT "+t.dialect.clock(), nil, []any{&millis}); err != nil {
		return driver.ServerTime{}, t.failed(ctx, err)
	}
	return t.observe(sent, millis), nil
}

// observe updates the clock from the answer to a statement that was sent at sent.
func (t *table) observe(sent time.Time, millis int64) driver.ServerTime {
	answer := driver.ServerTime{Sent: sent, Got: time.Now(), At: time.UnixMilli(millis), Step: time.Millisecond}
	t.clock.Observe(answer)
	return answer
}

// judge is the time that a call's conditions use. by is nil for the database's time when the
// statement has its row, or the time of a caller with another clock.
type judge struct {
	t  *table
	by any
}

// otherClock is the difference from the database's time, in milliseconds, from which a caller's now
// must come from another clock.
const otherClock = driver.Instant(500)

func (t *table) judge(now driver.Instant) judge {
	if d := now - driver.Floor(t.Now()); d < -otherClock || d > otherClock {
		return judge{t, int64(now)}
	}
	return judge{t, nil}
}

// now returns that time, as this process knows it.
func (j judge) now() driver.Instant {
	if now, ok := j.by.(int64); ok {
		return driver.Instant(now)
	}
	return driver.Floor(j.t.Now())
}

// alive and dead return the arguments of BETWEEN for the times at which a record with that expiry
// is.
func (j judge) alive(expiry driver.Instant) []any {
	if expiry == 0 {
		return []any{j.by, int64(0), int64(math.MaxInt64)}
	}
	return []any{j.by, int64(0), int64(expiry - 1)}
}

func (j judge) dead(expiry driver.Instant) []any {
	return []any{j.by, int64(expiry), int64(math.MaxInt64)}
}
