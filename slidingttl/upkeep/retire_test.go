package upkeep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// lossy is a store that loses the answers to its first touches.
type lossy struct {
	*fixture
	lost int
}

func (d *lossy) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	v, err := d.fixture.Touch(ctx, key, was, next, now)
	if err == nil && d.lost > 0 {
		d.lost--
		return v, driver.ErrAmbiguous
	}
	return v, err
}

// racing is a store whose records are touched by others just before their first touch by the test.
type racing struct {
	*fixture
	raced bool
}

func (d *racing) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	if !d.raced && was.ExpiresAt != 0 {
		d.raced = true
		if _, err := d.fixture.Touch(ctx, key, was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(day)}, now); err != nil {
			return 0, err
		}
	}
	return d.fixture.Touch(ctx, key, was, next, now)
}

// Records named by key end, whether adopted or not, and each key is counted once.
func TestRetireKeys(t *testing.T) {
	for name, wrap := range map[string]func(*fixture) upkeep.Store{
		"plain":   func(f *fixture) upkeep.Store { return f },
		"answers": func(f *fixture) upkeep.Store { return &lossy{f, 2} },
		"races":   func(f *fixture) upkeep.Store { return &racing{f, false} },
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			for i := range 20 {
				f.Add(fmt.Sprint("user:", i), -day, 20*day)
			}
			f.Add("foreign", 0, 0)
			var o upkeep.RetireOptions
			o.Keys = []string{"user:3", "user:4", "user:4", "foreign", "nobody"}
			o.Writers = 1
			dry, err := upkeep.Retire(t.Context(), wrap(f), &o)
			ok(t, err)
			if dry.Counts["retired"] != 3 || dry.Counts["dead"] != 1 || dry.Applied || len(keysOf(f)) != 21 {
				t.Fatalf("a dry run:\n%v", dry)
			}
			o.Apply = true
			r, err := upkeep.Retire(t.Context(), wrap(f), &o)
			ok(t, err)
			if r.Counts["retired"] != 3 || r.Counts["dead"] != 1 || r.Records != 4 || r.Failed+r.Unsure+r.Counts["lost_races"] != 0 || !r.Done {
				t.Errorf("the report is\n%v", r)
			}
			for _, key := range o.Keys {
				if e, err := f.Get(t.Context(), key); err == nil && e.Alive(f.Began) {
					t.Errorf("%q is alive: %v", key, e.Life)
				}
			}
			for _, key := range []string{"user:0", "user:19"} {
				metaOf(f, key)
			}
			r, err = upkeep.Retire(t.Context(), f, &o)
			ok(t, err)
			if r.Counts["retired"] != 0 || r.Counts["dead"] != 4 {
				t.Errorf("again, the report is\n%v", r)
			}
		})
	}
}

// Promise 14: the expiry is MaxSkew before now, at the store's resolution, and created_at stays.
func TestRetirePrefix(t *testing.T) {
	f := open(t)
	f.Add("acme:1", -time.Second, 20*day)
	f.Add("other", -day, 20*day)
	f.Add("acme:web:s:aaaaaaaaaaaaaaaaaaaaaaaa", -day, 20*day)
	was := metaOf(f, "acme:1")
	var wrote driver.Life
	d := &watched{f, func(l driver.Life) { wrote = l }}
	var o upkeep.RetireOptions
	o.Prefix = "acme:"
	o.Apply, o.MaxSkew = true, 90*time.Second
	o.Now = func() time.Time { return f.Began.Time() }
	r, err := upkeep.Retire(t.Context(), d, &o)
	ok(t, err)
	if r.Counts["retired"] != 1 || r.Counts["kept"] != 1 || r.Passed != 1 || r.Records != 2 {
		t.Errorf("the report is\n%v", r)
	}
	if end := f.Began.Add(-90 * time.Second); wrote.CreatedAt != was.CreatedAt || wrote.ExpiresAt > end || wrote.ExpiresAt <= end.Add(-f.Resolution()) {
		t.Errorf("the life is %v; want it to end at %v", wrote, end)
	}
	metaOf(f, "other")
	both := upkeep.WriteOptions{Keys: []string{"a"}}
	both.Prefix = "b"
	for _, bad := range []upkeep.RetireOptions{{}, {WriteOptions: both}} {
		if _, err := upkeep.Retire(t.Context(), f, &bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// watched is a store that tells of the lives that touches write.
type watched struct {
	*fixture
	wrote func(driver.Life)
}

func (d *watched) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	d.wrote(next)
	return d.fixture.Touch(ctx, key, was, next, now)
}
