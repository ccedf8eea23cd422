// Package walktest has the stores over which walks are tested.
package walktest

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store is a store in memory.
type Store struct {
	*memory.Driver[string]
	T     testing.TB
	Began driver.Instant // when it was opened
}

// Open returns an empty Store. The test's end closes it. opts may be nil.
func Open(t testing.TB, opts *memory.Options[string]) *Store {
	t.Helper()
	d, err := memory.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Store{Driver: d, T: t, Began: driver.Floor(d.Now())}
}

// Add puts a record with its life counted from Began; zero: none.
func (s *Store) Add(key string, created, expires time.Duration) {
	s.T.Helper()
	var l driver.Life
	if created != 0 {
		l.CreatedAt = s.Began.Add(created)
	}
	if expires != 0 {
		l.ExpiresAt = s.Began.Add(expires)
	}
	if _, err := s.Insert(s.T.Context(), key, "v", l, 1); err != nil {
		s.T.Fatal(err)
	}
}

// Dead is a Store that has records which the store beneath has long deleted, or cannot hold. They are
// in its last page.
type Dead struct {
	*Store
	More []driver.Scanned
}

// Scan is the Store's, with More.
func (d Dead) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	p, err := d.Store.Scan(ctx, from, limit)
	if err == nil && p.Next == "" {
		p.Records = append(p.Records, d.More...)
	}
	return p, err
}

// Scripted is a Store whose pages and errors a test decides. It is not safe for concurrent use.
type Scripted struct {
	*Store
	Page  func(n int, from driver.Cursor, limit int) (driver.Page, error) // n counts the calls, from 1
	calls int
}

// Scan returns what Page does.
func (s *Scripted) Scan(_ context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	s.calls++
	return s.Page(s.calls, from, limit)
}
