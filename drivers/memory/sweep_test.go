package memory

import (
	"fmt"
	"testing"
	"time"
)

func TestExpiredRecordsGo(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		ttls := []time.Duration{
			0, 63 * time.Millisecond, 127 * time.Millisecond, time.Second, 4097 * time.Millisecond, time.Minute,
			30 * time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, 400 * 24 * time.Hour, 20 * 365 * 24 * time.Hour,
		}
		start := d.instant()
		for i, ttl := range ttls {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(start, ttl))
		}
		for i, ttl := range ttls {
			if ttl > 0 {
				time.Sleep(start.Add(ttl).Time().Add(-time.Nanosecond).Sub(d.Now()))
				mustGet(t, d, fmt.Sprint(i))
			}
			time.Sleep(sweepStep)
			wantGone(t, d, fmt.Sprint(i))
		}
	})
}
