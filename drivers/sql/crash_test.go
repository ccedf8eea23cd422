package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestCrashTakesTouchesAlone: PostgreSQL, which flushes to disk, is killed with all its processes
// under load. No acknowledged row, created_at or value is lost, and of touches those of the last
// moment at most.
func TestCrashTakesTouchesAlone(t *testing.T) {
	const workers, crashes = 4, 3
	// A commit that is not waited for is flushed within three times wal_writer_delay, 200 ms.
	const moment = 5 * time.Second
	s, err := sqltest.RunDurable(t.Context(), sqltest.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	db, err := stdsql.Open("pgx", s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxIdleConns(maxIdle)
	d := open[session](t, db, PostgreSQL, nil)

	type acknowledged struct {
		e       driver.Entry[session]
		touched []driver.Instant // expiries
		at      []time.Time      // when these were acknowledged
	}
	lost, touches := 0, 0
	for crash := range crashes {
		var mu sync.Mutex // guards the maps
		done, unsure := make(map[string]*acknowledged), make(map[string]bool)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					key := fmt.Sprintf("%d-%d-%d", crash, w, i)
					now := driver.Floor(d.Now())
					a := &acknowledged{e: driver.Entry[session]{Value: session{key}, Meta: driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}}}}
					version, err := d.Insert(ctx, key, a.e.Value, a.e.Life, now)
					if err == nil && i%3 == 0 {
						a.e.Version = version
						a.e.Value.User += " again"
						version, err = d.Replace(ctx, key, a.e.Value, a.e.Meta, a.e.Life, now)
					}
					if err != nil {
						mu.Lock()
						unsure[key] = true
						mu.Unlock()
						return // it is killed
					}
					a.e.Version = version
					mu.Lock()
					done[key] = a
					mu.Unlock()
					was := a.e.Meta
					for range 3 {
						life := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + 1000}
						if _, err := d.Touch(ctx, key, was, life, now); err != nil {
							return
						}
						was.Life = life
						mu.Lock()
						a.touched, a.at = append(a.touched, life.ExpiresAt), append(a.at, time.Now())
						mu.Unlock()
					}
				}
			})
		}
		for enough := false; !enough; time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			enough = len(done) > 500
			mu.Unlock()
		}
		killed := time.Now()
		if err := s.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		group.Wait()
		disconnect(db)
		for key, a := range done {
			e, err := d.Get(t.Context(), key)
			if err != nil && errors.Is(err, driver.ErrNotFound) || err == nil && (e.Value != a.e.Value || e.CreatedAt != a.e.CreatedAt || e.Version != a.e.Version) {
				if !unsure[key] {
					t.Errorf("a row that was acknowledged is %+v, %v; want %+v", e, err, a.e)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, to := range a.touched {
				if touches++; e.ExpiresAt < to {
					lost++
					if ago := killed.Sub(a.at[i]); ago > moment {
						t.Errorf("a touch that was acknowledged %v before the crash is lost", ago)
					}
				}
			}
		}
	}
	t.Logf("%d of %d touches lost in %d crashes", lost, touches, crashes)
}

// TestTouchesAloneAreUnsynced: only a touch that moves an expiry forward, in a transaction of its own,
// commits without waiting, and none does with Options.SyncTouches.
func TestTouchesAloneAreUnsynced(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	for _, sync := range []bool{false, true} {
		d := open(t, db, PostgreSQL, &Options[session]{SyncTouches: sync})
		s := d.sql
		for name, c := range map[string]struct {
			text string
			may  bool
		}{
			"insert": {s.insert, false}, "overwrite": {s.overwrite, false}, "replace": {s.replace, false}, "touch": {s.touch, false},
			"remove": {s.remove, false}, "delete": {s.delete, false}, "forward in a transaction": {s.forwardIn, false},
			"forward": {s.forward, true}, "readTouch": {s.readTouch, true},
		} {
			if is := unsyncs(c.text); is != (c.may && !sync) {
				t.Errorf("%s, SyncTouches %v: commits without waiting: %v", name, sync, is)
			}
		}
	}
}

func unsyncs(statement string) bool { return strings.Contains(statement, "synchronous_commit") }
