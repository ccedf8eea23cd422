package sql

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestTurn: a writer waits for its turn no longer than its context, and then has written nothing.
// Reads do not wait.
func TestTurn(t *testing.T) {
	d := open[session](t, sqltest.DB(t, sqltest.SQLite), SQLite, nil)
	was := d.mustInsert(t, "k", session{"ann"}, lasting(time.Minute))
	if err := d.turn.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, err := d.Insert(ctx, "l", session{"bob"}, lasting(time.Minute), base)
		ended <- err
	}()
	go func() {
		_, _, err := d.ReadTouch(ctx, "k", nil, driver.Access{At: base, Keep: 3600e3, Stored: 3600e3, Most: 7200e3, Step: time.Millisecond}, base)
		ended <- err
	}()
	if e := d.mustGet(t, "k"); e.Meta != was {
		t.Errorf("stored is %+v, want %+v", e.Meta, was)
	}
	leave()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("a write that waited: %v", err)
		}
	}
	d.turn.pass()
	if _, err := d.Get(t.Context(), "l"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get of what was never written: %v", err)
	}
	d.mustInsert(t, "l", session{"bob"}, lasting(time.Minute))
}

// TestCompiledOnce: each text is compiled once, and again after the table has changed.
func TestCompiledOnce(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	d := open[session](t, db, SQLite, nil)
	d.mustInsert(t, "k", session{"ann"}, lasting(time.Minute))
	for range 10 {
		d.mustGet(t, "k")
	}
	n, texts := 0, []string{"SELECT " + d.dialect.clock(), d.sql.getTimed, d.sql.get} // Learn, a read that asks for the time too, all others
	d.reads.(*compiled).all.Range(func(text, _ any) bool {
		n++
		if !slices.Contains(texts, text.(string)) {
			t.Errorf("ten reads compiled %s", text)
		}
		return true
	})
	if n != len(texts) {
		t.Errorf("ten reads compiled %d statements; want %d", n, len(texts))
	}
	mustExec(t, db, SQLite, "DROP TABLE "+d.name)
	if _, err := d.Get(t.Context(), "k"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Get without a table: %v", err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.mustInsert(t, "k", session{"bob"}, lasting(time.Minute))
	if e := d.mustGet(t, "k"); e.Value.User != "bob" {
		t.Errorf("%+v", e)
	}
}
