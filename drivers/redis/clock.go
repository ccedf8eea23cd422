package redis

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Now implements driver.Clock: the server's time. It makes no trip: once a second a read's pipeline
// carries TIME, writes of a new value answer with it, and Learn asks before the first. Before the
// first answer Now is the system's time. In a cluster it is the time of the node that answered last.
func (d *Driver[T]) Now() time.Time { return d.clock.Now() }

// Bounds implements driver.Clock.
func (d *Driver[T]) Bounds() (earliest, latest driver.Instant) { return d.clock.Bounds() }

// Learn asks for the server's time, by one TIME, if it is unknown or half a minute old. A
// Store calls it before it plans an insert or an upsert. In a cluster any node may be asked, and may be silent
// while the write's own is not: after 200 ms Learn returns if the time is known, and else asks other nodes too.
func (d *Driver[T]) Learn(ctx context.Context) error {
	if !d.clock.Overdue() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := d.time(ctx, d.client)
		answered <- err
	}()
	asked := make(chan bool, 1)
	for {
		select {
		case err := <-answered:
			return err
		case <-asked:
		case <-time.After(stall):
		}
		if d.clock.Known() {
			return nil
		}
		if !d.clock.Due() { // one of all callers asks, once a second
			continue
		}
		for i := range otherNodes {
			go func() {
				_ = d.timed(ctx, get.With(d.opts.Prefix+strconv.Itoa(i)))
				select {
				case asked <- true:
				default:
				}
			}()
		}
	}
}

// otherNodes is the number of keys whose nodes are asked for the time beside one that is silent. A few keys might all
// be that one's.
const otherNodes = 16

var timeCommand = wire.Command{Words: []string{"TIME"}, NoKey: true}

func (d *Driver[T]) time(ctx context.Context, client wire.Client) (kit.ServerTime, error) {
	sent := time.Now()
	a := client.Do(ctx, timeCommand)
	t, err := d.observe(sent, a)
	if err != nil {
		return t, failed(ctx, a)
	}
	return t, nil
}

// observe updates the clock from a TIME's answer: seconds, and microseconds of the next.
func (d *Driver[T]) observe(sent time.Time, a wire.Answer) (t kit.ServerTime, err error) {
	if err = want(a, wire.Array); err != nil {
		return t, err
	} else if len(a.Array) != 2 {
		return t, errAnswer
	}
	seconds, err := strconv.ParseInt(string(a.Array[0].String), 10, 64)
	micros, err2 := strconv.ParseInt(string(a.Array[1].String), 10, 64)
	if err = cmp.Or(err, err2); err != nil {
		return t, err
	}
	t = kit.ServerTime{Sent: sent, Got: time.Now(), At: time.Unix(seconds, micros*int64(time.Microsecond)), Step: time.Microsecond}
	d.clock.Observe(t)
	return t, nil
}
