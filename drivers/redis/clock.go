package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Now implements driver.Clock: the server's time. It makes no trip: once a second a read's pipeline
// carries TIME, and Learn asks before the first write. Before the first answer Now is the system's
// time. In a cluster it is the time of the node that answered last.
func (d *Driver[T]) Now() time.Time { return d.clock.Now() }

// Bounds implements driver.Clock.
func (d *Driver[T]) Bounds() (earliest, latest driver.Instant) { return d.clock.Bounds() }

// Learn asks for the server's time, by one TIME, if it is unknown or half a minute old. A
// Store calls it before it plans an insert or an upsert.
func (d *Driver[T]) Learn(ctx context.Context) error {
	if !d.clock.Overdue() {
		return nil
	}
	_, err := d.time(ctx, d.client)
	return err
}

func (d *Driver[T]) time(ctx context.Context, client rueidis.CoreClient) (driver.ServerTime, error) {
	sent := time.Now()
	t, err := d.observe(sent, client.Do(ctx, again(d.client.B().Time().Build())))
	if err != nil {
		return t, failed(ctx, err)
	}
	return t, nil
}

// observe updates the clock from a TIME's answer: seconds, and microseconds of the next.
func (d *Driver[T]) observe(sent time.Time, answer rueidis.RedisResult) (t driver.ServerTime, err error) {
	parts, err := answer.AsIntSlice()
	if err == nil && len(parts) == 2 {
		t = driver.ServerTime{Sent: sent, Got: time.Now(), At: time.Unix(parts[0], parts[1]*int64(time.Microsecond)), Step: time.Microsecond}
		d.clock.Observe(t)
	}
	return t, err
}
