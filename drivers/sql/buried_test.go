package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestEachLifeIsBuried: while lives of some milliseconds are written, touched, removed, deleted by this and another
// program, and swept with different Retain and without Bury, each life reaches the archive once.
func TestEachLifeIsBuried(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open(t, db, dialect, &Options[session]{Deletes: true, Replaced: true, MaxSkew: time.Millisecond})
		retains, err := New(db, dialect, d.name, &Options[session]{Deletes: true, Replaced: true, MaxSkew: time.Millisecond, Retain: 30 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, dialect, "CREATE TABLE archived (life VARCHAR(60), died BIGINT)")
		bury := func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error {
			for _, x := range dead {
				if x.Problem != nil {
					t.Errorf("buried: %+v", x)
				}
				if _, err := tx.ExecContext(ctx, d.dialect.bind("INSERT INTO archived VALUES (?, ?)"), string(x.Value), int64(x.At)); err != nil {
					return err
				}
			}
			return nil
		}
		var mu sync.Mutex // guards the rest
		lives, undone := make(map[string]bool), make(map[string]bool)
		note := func(set map[string]bool, v string) {
			mu.Lock()
			defer mu.Unlock()
			set[v] = true
		}
		bear := func(what string, err error) bool {
			if err != nil && !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrLate) {
				t.Errorf("%s: %v", what, err)
			}
			return err == nil
		}
		seed, began := rand.Uint64(), driver.Floor(d.Now()).Add(-time.Hour)
		t.Logf("seed %d", seed)
		var writers, sweepers sync.WaitGroup
		for w := range 6 {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			writers.Go(func() {
				for n := range 250 { // calls of each
					k, v := fmt.Sprint("k", r.IntN(20)), fmt.Sprintf("%d/%d", w, n)
					now := driver.Floor(d.Now())
					// A key and a created_at are one life: no two calls have the same one.
					life := driver.Life{CreatedAt: began + driver.Instant(w*250+n), ExpiresAt: now.Add(time.Duration(5+r.IntN(80)) * time.Millisecond)}
					what := r.IntN(9)
					if what < 3 {
						_, err := d.Insert(ctx, k, session{v}, life, now)
						if bear("Insert", err) {
							note(lives, v)
						}
						continue
					}
					if what == 3 {
						tx, err := db.BeginTx(ctx, nil)
						if !bear("BeginTx", err) {
							continue
						}
						_, err = d.Insert(WithTx(ctx, tx), k, session{v}, life, now)
						if bear("Insert in a transaction", err) && r.IntN(2) == 0 {
							if bear("Commit", tx.Commit()) {
								note(lives, v)
							}
						} else {
							note(undone, v)
							_ = tx.Rollback()
						}
						continue
					}
					if what == 4 { // of what is alive or dead
						bear("Delete", d.Delete(ctx, k))
						continue
					}
					e, err := d.Get(ctx, k)
					if !bear("Get", err) || !e.Alive(now) && what != 8 {
						continue
					}
					to := e.Life
					to.ExpiresAt += 7
					switch what {
					case 5:
						_, err = d.Touch(ctx, k, e.Meta, to, now)
					case 6:
						_, err = d.Replace(ctx, k, e.Value, e.Meta, to, now)
					case 7:
						err = d.Remove(ctx, k, e.Meta, now)
					default:
						_, err = db.ExecContext(ctx, d.dialect.bind("DELETE FROM "+d.quoted()+" WHERE id = ? AND version = ?"), k, int64(e.Version))
						if d.dialect.verdict(err).again() { // another program would try again
							err = nil
						}
					}
					bear(fmt.Sprint("operation ", what), err)
				}
			})
		}
		done := make(chan struct{})
		for _, of := range []struct {
			table *table
			o     SweepOptions
		}{{d.table, SweepOptions{Batch: 7, Bury: bury}}, {retains.table, SweepOptions{Bury: bury}}, {d.table, SweepOptions{}}} {
			s, err := of.table.Sweeper(&of.o)
			if err != nil {
				t.Fatal(err)
			}
			sweepers.Go(func() {
				for {
					bear("Sweep", s.Sweep(ctx))
					select {
					case <-done:
						return
					case <-time.After(3 * time.Millisecond): // how often it sweeps
					}
				}
			})
		}
		writers.Wait()
		close(done)
		sweepers.Wait()
		last := d.mustSweeper(t, SweepOptions{Bury: bury, Now: at(driver.Floor(d.Now()).Add(time.Hour))})
		bear("the last Sweep", last.Sweep(ctx))
		buried := make(map[string]int)
		err = each(ctx, db, "SELECT life FROM archived", nil, func(scan func(...any) error) error {
			var life string
			err := scan(&life)
			buried[life]++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var missing, twice, never int
		count := func(set map[string]bool, wrong func(n int)) {
			for v := range set {
				wrong(max(buried[fmt.Sprintf(`{"user":"%s"}`, v)], buried[fmt.Sprintf(`{"user": "%s"}`, v)]))
			}
		}
		count(lives, func(n int) { missing += min(1, 1-min(n, 1)); twice += max(0, n-1) })
		count(undone, func(n int) { never += n })
		if missing+twice+never > 0 || len(lives) < 50 || d.rows(t) != 0 {
			t.Errorf("of %d lives %d are not buried, %d are once more than once, and %d that were rolled back", len(lives), missing, twice, never)
		}
		t.Logf("%d lives", len(lives))
	})
}
