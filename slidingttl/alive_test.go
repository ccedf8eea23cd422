package slidingttl_test

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestAlive: a record that a query returned is judged as by a read.
func TestAlive(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	at := func(d time.Duration) driver.Instant { return driver.Floor(now.Add(d)) }
	d, err := memory.New[time.Duration](nil)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	long := slidingttl.Policy{IdleGrace: 24 * time.Hour, MaxLifetime: 48 * time.Hour}
	byKey := func(key string) slidingttl.Policy {
		if key == "long" {
			return long
		}
		return session
	}
	byValue := func(v time.Duration) slidingttl.Policy {
		return slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: v}
	}
	type options = slidingttl.Options[time.Duration]
	for name, c := range map[string]struct {
		opts    options
		key     string
		value   time.Duration
		life    driver.Life
		want    bool
		invalid bool
	}{
		"alive":                   {life: driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(time.Millisecond)}, want: true},
		"expires now":             {life: driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(0)}},
		"a moment before its cap": {life: driver.Life{CreatedAt: at(time.Millisecond - session.MaxLifetime), ExpiresAt: at(time.Hour)}, want: true},
		"at its cap":              {life: driver.Life{CreatedAt: at(-session.MaxLifetime), ExpiresAt: at(time.Hour)}},
		"never expires":           {life: driver.Life{CreatedAt: at(-time.Hour)}, want: true},
		"foreign":                 {life: driver.Life{ExpiresAt: at(time.Hour)}, want: true},
		"foreign, rejected":       {opts: options{Foreign: slidingttl.Reject}, life: driver.Life{ExpiresAt: at(time.Hour)}},
		"longer by its key":       {opts: options{PolicyFor: byKey}, key: "long", life: driver.Life{CreatedAt: at(-session.MaxLifetime), ExpiresAt: at(time.Hour)}, want: true},
		"shorter by its value":    {opts: options{PolicyOf: byValue}, value: time.Hour, life: driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(time.Hour)}},
		"of a policy that is bad": {opts: options{PolicyOf: byValue}, life: driver.Life{CreatedAt: at(-time.Hour), ExpiresAt: at(time.Hour)}, invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.Now = func() time.Time { return now }
			s, err := slidingttl.New(d, session, &c.opts)
			must(t, err)
			got, err := s.Alive(c.key, driver.Entry[time.Duration]{Value: c.value, Meta: driver.Meta{Life: c.life}})
			if c.invalid {
				wantErr(t, err, slidingttl.ErrInvalid)
				return
			}
			must(t, err)
			if got != c.want {
				t.Errorf("Alive is %v; want %v", got, c.want)
			}
		})
	}
}
