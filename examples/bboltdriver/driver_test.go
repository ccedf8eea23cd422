package bboltdriver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// ended tells what its transactions that write have come to.
type ended struct {
	*bolt.DB
	with chan error
}

func (e ended) Update(do func(*bolt.Tx) error) error {
	err := e.DB.Update(do)
	e.with <- err
	return err
}

// A write that is given up while it waits for bbolt's only writer never lands.
func TestGivenUp(t *testing.T) {
	db := ended{openFile(t).file, make(chan error, 1)}
	d, err := New[string](db, Options{Bucket: "records"})
	if err != nil || <-db.with != nil {
		t.Fatal(err)
	}
	other, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // by which it mostly waits
	defer cancel()
	if _, err := d.Insert(ctx, "k", "v", driver.Life{}, 1); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("the error is %v; want %v alone", err, context.DeadlineExceeded)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-db.with; err == nil {
		t.Error("the write has landed")
	}
	if _, err := d.Get(t.Context(), "k"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get: %v; want %v", err, driver.ErrNotFound)
	}
}

// late answers a read when the test ends.
type late struct {
	*bolt.DB
	end chan struct{}
}

func (l late) View(do func(*bolt.Tx) error) error {
	err := l.DB.View(do)
	<-l.end
	return err
}

// A read that is given up is never said to have written.
func TestGivenUpReading(t *testing.T) {
	db := late{openFile(t).file, make(chan struct{})}
	defer close(db.end)
	d, err := New[string](db, Options{Bucket: "records"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("Get: %v; want %v alone", err, context.DeadlineExceeded)
	}
}

// A page is bounded whatever its limit, and passes by what is no record.
func TestPages(t *testing.T) {
	f := openFile(t)
	d, err := New[string](f.file, Options{Bucket: "records"})
	if err != nil {
		t.Fatal(err)
	}
	err = f.file.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("records"))
		for i := range maxPage {
			if err := b.Put(fmt.Appendf(nil, "%04d", i), join(driver.Meta{}, nil)); err != nil {
				return err
			}
		}
		_, err := b.CreateBucket([]byte("bucket"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := d.Scan(t.Context(), driver.EncodeCursor(place{}), 2*maxPage)
	if err != nil || len(first.Records) != maxPage || first.Next == "" {
		t.Fatalf("the first page has %d records, and the error is %v", len(first.Records), err)
	}
	last, err := d.Scan(t.Context(), first.Next, 2*maxPage)
	if err != nil || len(last.Records) != 0 || last.Passed != 1 || last.Next != "" {
		t.Errorf("the last page has %d records, passed by %d, and the error is %v", len(last.Records), last.Passed, err)
	}
	if _, err := d.Scan(t.Context(), driver.EncodeCursor(struct{ Other int }{1}), 1); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Scan from a cursor of another driver: %v", err)
	}
}

func TestRefused(t *testing.T) {
	f := openFile(t)
	d, err := New[drivertest.Value](f.file, Options{Bucket: "records"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.file.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("records")) }); err != nil {
		t.Fatal(err)
	}
	drivertest.RunRefused(t, d)
}

func TestInvalid(t *testing.T) {
	f := openFile(t)
	if _, err := New[string](f.file, Options{}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("New without a bucket: %v", err)
	}
	d, err := New[func()](f.file, Options{Bucket: "records"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Insert(t.Context(), "k", func() {}, driver.Life{}, 1); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Insert of a function: %v", err)
	}
	if err := f.put("k", join(driver.Meta{}, []byte("1"))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), "k"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Get of a number as a function: %v", err)
	}
}
