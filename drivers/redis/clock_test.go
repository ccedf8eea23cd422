package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestContractApart runs the cases that set the server's clock, each on a server of its own.
func TestContractApart(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]redis.Options{"default": {}, "codec": configurations["codec"]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, clocked(opts))
		})
	}
}

// clocked runs the cases that set the server's clock.
func clocked(opts redis.Options) drivertest.Harness {
	return drivertest.Harness{
		Cases:    func(name string) bool { return strings.HasPrefix(name, "apart/") },
		Lacks:    lacks,
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			server, set := redistest.StartClocked(t)
			client := server.Client(t)
			var ahead atomic.Int64
			return &drivertest.Backend{
				Driver: open[drivertest.Value](t, client, opts),
				Again: func() driver.Driver[drivertest.Value] {
					return open[drivertest.Value](t, client, opts)
				},
				Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
				Apart: func(d time.Duration) {
					set(d)
					ahead.Store(int64(d))
				},
			}
		},
	}
}

// A driver learns the server's time in the trip of a read, or by Learn.
func TestClockApart(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *redis.Driver[profile]) error{
		"Get": func(ctx context.Context, d *redis.Driver[profile]) error {
			_, err := d.Get(ctx, "a")
			return err
		},
		"GetMulti": func(ctx context.Context, d *redis.Driver[profile]) error {
			found, err := d.GetMulti(ctx, []string{"a"})
			if len(found) != 1 {
				t.Error("GetMulti has not found the record")
			}
			return err
		},
		"ReadTouch": func(ctx context.Context, d *redis.Driver[profile]) error {
			_, touched, err := d.ReadTouch(ctx, "a", nil, anAccess(), driver.Floor(time.Now()))
			if touched {
				t.Error("ReadTouch has touched by a time that is not the server's")
			}
			return err
		},
		"Learn": func(ctx context.Context, d *redis.Driver[profile]) error { return d.Learn(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.StartVirtual(t)
			server.Advance(10 * time.Minute)
			client := &counting{Client: server.Client(t)}
			d := open[profile](t, client, redis.Options{})
			if off := time.Until(d.Now()).Abs(); off > time.Minute {
				t.Errorf("before an answer the time is off the system's by %v", off)
			}
			now := driver.Floor(server.Now())
			record := open[profile](t, server.Client(t), redis.Options{})
			_, err := record.Insert(t.Context(), "a", profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
			ok(t, "Insert", err)
			if trips := client.during(func() { ok(t, name, ask(t.Context(), d)) }); trips != 1 {
				t.Errorf("%d trips; want 1", trips)
			}
			if off := d.Now().Sub(server.Now()).Abs(); off > time.Minute {
				t.Errorf("the time is off the server's by %v", off)
			}
		})
	}
}

// A silent server delays no caller beyond the caller's context.
func TestSilentAtFirstUse(t *testing.T) {
	f := newFixture(t, redis.Options{})
	f.d = open[profile](t, f.client, redis.Options{})
	defer f.proxy.Hang()()
	if trips := f.client.during(func() { f.d.Now() }); trips != 0 {
		t.Errorf("Now makes %d trips", trips)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Learn": func() error { return f.d.Learn(ended) },
		"Get": func() error {
			_, err := f.d.Get(ended, "a")
			return err
		},
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; want %v", name, err, context.Canceled)
		}
	}
}

// A write that waits in the server until its record is dead does not land, though the server still
// holds it for History.
func TestLateWrite(t *testing.T) {
	for name := range calls(nil, driver.Meta{}) {
		if name == "Insert" || name == "Overwrite" || name == "Delete" {
			continue // they do not need the record
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, redis.Options{Retain: time.Hour})
			admin := f.server.Client(t)
			do := func(words ...string) string {
				t.Helper()
				text, err := admin.Do(t.Context(), admin.B().Arbitrary(words...).Build()).ToString()
				ok(t, words[0], err)
				return text
			}
			now := driver.Floor(f.d.Now())
			life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Second)}
			version, err := f.d.Insert(t.Context(), secret, profile{"kept"}, life, now)
			ok(t, "Insert", err)
			was := driver.Meta{Life: life, Version: version}
			do("CLIENT", "PAUSE", "60000", "WRITE")
			answer := make(chan error, 1)
			go func() { answer <- calls(f.d, was)[name](context.Background()) }()
			for !strings.Contains(do("INFO", "clients"), "blocked_clients:1") {
				time.Sleep(time.Millisecond)
			}
			for driver.Floor(f.d.Now()) < life.ExpiresAt+10 { // the server's clock is known to less than 10 ms
				time.Sleep(10 * time.Millisecond)
			}
			do("CLIENT", "UNPAUSE")
			if err := <-answer; !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("%s: %v; want %v", name, err, driver.ErrNotFound)
			}
			if e, err := f.d.Get(t.Context(), secret); err != nil || e.Meta != was {
				t.Errorf("the record is %+v, %v; want %+v", e, err, was)
			}
		})
	}
	t.Run("ReadTouch", func(t *testing.T) {
		f := newFixture(t, redis.Options{Retain: time.Hour})
		now := driver.Floor(f.d.Now())
		life := driver.Life{CreatedAt: now, ExpiresAt: now + 1}
		_, err := f.d.Insert(driver.WithOtherClock(t.Context()), secret, profile{}, life, now) // though it has ended by then
		ok(t, "Insert", err)
		for driver.Floor(f.d.Now()) < life.ExpiresAt+10 {
			time.Sleep(time.Millisecond)
		}
		e, touched, err := f.d.ReadTouch(t.Context(), secret, nil, anAccess(), now)
		if err != nil || touched || e.Life != life {
			t.Errorf("ReadTouch that comes late: %+v, %t, %v; want the record as it was", e, touched, err)
		}
	})
}

// A caller whose time is ahead begins no life while the server's time has the record alive, unless
// its time is by another clock.
func TestNewLifeGoesByTheServersTime(t *testing.T) {
	f := newFixture(t, redis.Options{Retain: time.Hour})
	e := f.record(t, secret)
	ahead := e.ExpiresAt + 1
	next := driver.Life{CreatedAt: ahead, ExpiresAt: ahead.Add(time.Hour)}
	var conflict *driver.ConflictError
	if _, err := f.d.Insert(t.Context(), secret, profile{"next"}, next, ahead); !errors.As(err, &conflict) || conflict.Found != e.Meta {
		t.Errorf("Insert over a live record: %v; want a conflict with %+v", err, e.Meta)
	}
	if m, err := f.d.Overwrite(t.Context(), secret, profile{"next"}, next, anAccess(), ahead); err != nil || m.CreatedAt != e.CreatedAt {
		t.Errorf("Overwrite of a live record: %+v, %v; want created_at %d", m, err, e.CreatedAt)
	}
	other := driver.WithOtherClock(t.Context())
	ahead = ahead.Add(24 * time.Hour)
	if _, err := f.d.Insert(other, secret, profile{"next"}, driver.Life{CreatedAt: ahead, ExpiresAt: ahead.Add(time.Hour)}, ahead); err != nil {
		t.Errorf("Insert by another clock: %v", err)
	}
}

// The answer to a write tells that the server's clock was set. A life that was planned before, and
// has ended since, is not written.
func TestWritesTellTheTime(t *testing.T) {
	for name, write := range map[string]func(context.Context, *redis.Driver[profile], driver.Life, driver.Instant) error{
		"Insert": func(ctx context.Context, d *redis.Driver[profile], life driver.Life, now driver.Instant) error {
			_, err := d.Insert(ctx, "a", profile{}, life, now)
			return err
		},
		"Overwrite": func(ctx context.Context, d *redis.Driver[profile], life driver.Life, now driver.Instant) error {
			_, err := d.Overwrite(ctx, "a", profile{}, life, anAccess(), now)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.StartVirtual(t)
			d := open[profile](t, server.Client(t), redis.Options{})
			ok(t, "Learn", d.Learn(t.Context()))
			_, err := d.Get(t.Context(), "a") // asks for the time, and none does in the next second
			if !errors.Is(err, driver.ErrNotFound) {
				t.Fatalf("Get: %v", err)
			}
			server.Advance(10 * time.Minute)
			now := driver.Floor(d.Now())
			if err := write(t.Context(), d, driver.Life{CreatedAt: now, ExpiresAt: now.Add(5 * time.Minute)}, now); !errors.Is(err, driver.ErrLate) {
				t.Errorf("%s of a life that has ended: %v; want %v", name, err, driver.ErrLate)
			}
			if off := d.Now().Sub(server.Now()).Abs(); off > time.Minute {
				t.Errorf("after the answer the time is off the server's by %v", off)
			}
		})
	}
}

// A store whose server's clock is set while it runs writes no record that is dead at once, and retires
// none that lives on.
func TestClockStepped(t *testing.T) {
	t.Parallel()
	server, set := redistest.StartClocked(t)
	p := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: time.Hour}
	store := func(p slidingttl.Policy) (*redis.Driver[profile], *slidingttl.Store[profile]) {
		d := open[profile](t, server.Client(t), redis.Options{})
		s, err := slidingttl.New(d, p, nil)
		ok(t, "slidingttl.New", err)
		t.Cleanup(func() { ok(t, "Close", s.Close(context.Background())) })
		return d, s
	}
	insert := func(ctx context.Context, s *slidingttl.Store[profile], key string) error {
		return s.Insert(ctx, key, profile{})
	}
	upsert := func(ctx context.Context, s *slidingttl.Store[profile], key string) error {
		return s.Upsert(ctx, key, profile{})
	}
	get := func(ctx context.Context, s *slidingttl.Store[profile], key string) error {
		_, err := s.Get(ctx, key)
		return err
	}
	update := func(ctx context.Context, s *slidingttl.Store[profile], key string) error {
		_, err := s.Update(ctx, key, func(v profile) (profile, error) { return v, nil })
		return err
	}
	retire := func(ctx context.Context, s *slidingttl.Store[profile], key string) error { return s.Retire(ctx, key) }
	foreign := func(key string) {
		client := server.Client(t)
		ok(t, "SET", client.Do(t.Context(), client.B().Set().Key(key).Value("{}").Build()).Error())
	}
	longer := func(key string) {
		_, s := store(slidingttl.Policy{IdleGrace: 24 * time.Hour, MaxLifetime: 48 * time.Hour})
		ok(t, "Insert", s.Insert(t.Context(), key, profile{}))
	}
	const back, ahead = -10 * time.Minute, 10 * time.Minute
	for name, c := range map[string]struct {
		by    time.Duration
		plant func(key string)
		call  func(context.Context, *slidingttl.Store[profile], string) error
	}{
		"insert":             {ahead, nil, insert},
		"upsert":             {ahead, nil, upsert},
		"get the foreign":    {ahead, foreign, get},
		"upsert the foreign": {ahead, foreign, upsert},
		"update the foreign": {ahead, foreign, update},
		"lower":              {ahead, longer, get},
		"lower by upsert":    {ahead, longer, upsert},
		"lower by update":    {ahead, longer, update},
		"retire":             {back, longer, retire},
		"retire the foreign": {back, foreign, retire},
	} {
		set(0)
		if c.plant != nil {
			c.plant(name)
		}
		d, s := store(p)
		ok(t, "Learn", d.Learn(t.Context()))
		if _, err := d.Get(t.Context(), "none"); !errors.Is(err, driver.ErrNotFound) { // it asks for the time, and none does in the next second
			t.Fatalf("Get: %v", err)
		}
		set(c.by)
		ok(t, name, c.call(t.Context(), s, name))
		d, s = store(p)
		ok(t, "Learn", d.Learn(t.Context()))
		_, err := s.Peek(t.Context(), name)
		if c.by == ahead && err != nil || c.by == back && !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("%s, with the server's clock set by %v: Peek: %v", name, c.by, err)
		}
	}
}
