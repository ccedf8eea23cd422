package bboltdriver

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// file is a DB that misbehaves when it is told to.
type file struct {
	file, closed *bolt.DB
	gate         drivertest.Gate
	other        atomic.Pointer[func() *bolt.DB] // is asked for what stands in file's place
	ended        chan struct{}                   // closed when the test ends
}

func openFile(t testing.TB) *file {
	f := &file{ended: make(chan struct{})}
	for name, db := range map[string]**bolt.DB{"file": &f.file, "closed": &f.closed} {
		var err error
		if *db, err = bolt.Open(filepath.Join(t.TempDir(), name), 0o600, &bolt.Options{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*db).Close() })
	}
	_ = f.closed.Close()
	t.Cleanup(func() { close(f.ended) })
	return f
}

// instead puts other in the file's place until back is called.
func (f *file) instead(other func() *bolt.DB) (back func()) {
	f.other.Store(&other)
	return func() { f.other.Store(nil) }
}

func (f *file) db() *bolt.DB {
	if other := f.other.Load(); other != nil {
		return (*other)()
	}
	return f.file
}

func (f *file) View(do func(*bolt.Tx) error) error { return f.db().View(do) }

func (f *file) Update(do func(*bolt.Tx) error) (err error) {
	switch f.gate.Pass(func() { err = f.db().Update(do) }) {
	case drivertest.Reset:
		return errors.New("input/output error")
	case drivertest.Silent:
		<-f.ended
	}
	return err
}

// put and plant write past the driver.
func (f *file) put(key string, record []byte) error {
	return f.file.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("records")).Put([]byte(key), record) })
}

func (f *file) plant(_ context.Context, key string, v drivertest.Value, life driver.Life) error {
	value, err := encode(v)
	if err != nil {
		return err
	}
	return f.put(key, join(driver.Meta{Life: life}, value))
}

// clock is a time that moves when it is told to: bbolt has none.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Wait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
