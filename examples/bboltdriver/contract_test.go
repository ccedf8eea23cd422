package bboltdriver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Parallel: true,
		Open:     open,
		Lacks: map[drivertest.Feature]string{
			drivertest.Apart:       "its clock is the process's",
			drivertest.Checker:     "there is nothing to configure",
			drivertest.Local:       "calls wait for the disk",
			drivertest.Mender:      "it reads one form only",
			drivertest.RawReader:   "nobody archives its records",
			drivertest.ReadToucher: "a read would wait for those who write",
			drivertest.Retain:      "the dead stay until they are reaped, which may be as late as one likes",
		},
	})
}

func open(t testing.TB) *drivertest.Backend {
	f, clock := openFile(t), &clock{now: time.Now()}
	over := func(db DB) *Driver[drivertest.Value] {
		d, err := New[drivertest.Value](db, Options{Bucket: "records", Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := over(f)
	return &drivertest.Backend{
		Driver: d,
		Again:  func() driver.Driver[drivertest.Value] { return over(f.file) },
		Now:    clock.Now,
		Wait:   clock.Wait,
		MaxKey: bolt.MaxKeySize,
		Plant:  f.plant,
		Malform: func(_ context.Context, key string, _ drivertest.Value) error {
			return f.put(key, []byte("{}"))
		},
		Fail: func() func() { return f.instead(func() *bolt.DB { return f.closed }) },
		Own:  func(err error) bool { return errors.Is(err, bolterrors.ErrDatabaseNotOpen) },
		Hang: func() func() {
			released := make(chan struct{})
			back := f.instead(func() *bolt.DB { <-released; return f.file })
			return sync.OnceFunc(func() { back(); close(released) })
		},
		Gate: &f.gate,
		Hostile: func(ctx context.Context, r drivertest.HostileRecord) error {
			if r.Key == "" || len(r.Key) > bolt.MaxKeySize || r.Alien || r.Guarded {
				return errors.ErrUnsupported
			}
			return f.plant(ctx, r.Key, drivertest.Value{}, driver.Life{CreatedAt: driver.Instant(r.CreatedAt), ExpiresAt: driver.Floor(r.ExpiresAt)})
		},
		Sweep: func(ctx context.Context) error { return reap(ctx, d) },
	}
}

// reap removes the dead of a driver that can list its records.
func reap(ctx context.Context, d driver.Driver[drivertest.Value]) error {
	s, ok := d.(upkeep.Store)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := upkeep.Reap(ctx, s, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: slidingttl.NoCap}, &upkeep.ReapOptions{
		WriteOptions: upkeep.WriteOptions{Apply: true},
		Expired:      true,
		Grace:        time.Millisecond,
	})
	return err
}
