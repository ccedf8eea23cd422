package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// rows counts the rows of d's table.
func (d *Driver[T]) rows(t testing.TB) (n int) {
	t.Helper()
	if err := d.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+d.quoted()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (t *table) mustSweeper(tb testing.TB, opts SweepOptions) *Sweeper {
	tb.Helper()
	s, err := t.Sweeper(&opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func at(i driver.Instant) func() time.Time { return i.Time }

func TestSweep(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		short, long := lasting(time.Minute), lasting(time.Hour)
		d.mustInsert(t, "dead", session{User: "ann"}, short)
		touched := d.mustInsert(t, "touched", session{}, short)
		if _, err := d.Touch(ctx, "touched", touched, long, base); err != nil {
			t.Fatal(err)
		}
		lowered := d.mustInsert(t, "lowered", session{}, long)
		if _, err := d.Touch(ctx, "lowered", lowered, short, base); err != nil {
			t.Fatal(err)
		}
		overwritten := d.mustInsert(t, "overwritten", session{}, long)
		if _, err := d.Replace(ctx, "overwritten", session{}, overwritten, short, base); err != nil {
			t.Fatal(err)
		}
		d.mustInsert(t, "long", session{}, long)
		d.mustInsert(t, "forever", session{}, driver.Life{CreatedAt: base})
		// Rows of another program, which does not know sweep_at.
		insert := "INSERT INTO " + d.quoted() + " (id, value, expires_at) VALUES (?, '{}', ?)"
		mustExec(t, db, dialect, insert, "foreign dead", int64(short.ExpiresAt))
		mustExec(t, db, dialect, insert, "foreign alive", int64(long.ExpiresAt))
		mustExec(t, db, dialect, insert, "foreign forever", nil)

		var mu sync.Mutex // guards buried
		var buried []string
		bury := func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range dead {
				buried = append(buried, r.Key)
				if r.Key == "dead" && (r.Format != "json" || !slices.Contains([]string{`{"user":"ann"}`, `{"user": "ann"}`}, string(r.Value)) ||
					r.Life != short || r.Version == 0) {
					t.Errorf("buried %+v (%s)", r, r.Value)
				}
			}
			return nil
		}
		s := d.mustSweeper(t, SweepOptions{Batch: 2, Now: at(short.ExpiresAt), Bury: bury})
		if at := s.Through(); !at.IsZero() {
			t.Errorf("before its first sweep it has come to %v", at)
		}
		began := time.Now().Truncate(time.Millisecond)
		if err := s.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		through := s.Through()
		if through.Before(began) || through.After(time.Now()) {
			t.Errorf("after a sweep it has come to %v; want when that began, %v", through, began)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := s.Sweep(gone); err == nil || !s.Through().Equal(through) {
			t.Errorf("after one that failed (%v) it has come to %v; want %v", err, s.Through(), through)
		}
		slices.Sort(buried)
		if want := []string{"dead", "foreign dead", "lowered", "overwritten"}; !slices.Equal(buried, want) {
			t.Errorf("buried %q, want %q", buried, want)
		}
		if n := d.rows(t); n != 5 {
			t.Errorf("%d rows are left, want 5", n)
		}
		if got := s.Stats(); got.Deleted != 4 || got.Filed != 3 || got.Failed != 1 {
			t.Errorf("stats %+v, want 4 deleted, 3 filed and one that failed", got)
		}
		again := d.mustSweeper(t, SweepOptions{Now: at(short.ExpiresAt)})
		if err := again.Sweep(ctx); err != nil || again.Stats() != (SweepStats{}) {
			t.Errorf("a second sweep: %v, %+v; want nothing to do", err, again.Stats())
		}
		d.retain = time.Millisecond
		later := d.mustSweeper(t, SweepOptions{Now: at(long.ExpiresAt)})
		if err := later.Sweep(ctx); err != nil || d.rows(t) != 5 {
			t.Errorf("within the retention: %v, %d rows; want 5", err, d.rows(t))
		}
		later = d.mustSweeper(t, SweepOptions{Now: at(long.ExpiresAt + 1)})
		if err := later.Sweep(ctx); err != nil || d.rows(t) != 2 {
			t.Errorf("after the retention: %v, %d rows; want those 2 that never expire", err, d.rows(t))
		}
	})
}

func TestBuryFails(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		mustExec(t, db, dialect, "CREATE TABLE graves (id VARCHAR(20))")
		d.mustInsert(t, "dead", session{}, lasting(time.Minute))
		failing := errors.New("the archive is full")
		s := d.mustSweeper(t, SweepOptions{Now: at(base.Add(time.Hour)), Bury: func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO graves VALUES ('"+dead[0].Key+"')"); err != nil {
				return err
			}
			return failing
		}})
		graves := func() (n int) {
			if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM graves").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if err := s.Sweep(ctx); !errors.Is(err, failing) {
			t.Errorf("error %v, want that of Bury", err)
		}
		if d.rows(t) != 1 || graves() != 0 || s.Stats().Failed != 1 {
			t.Errorf("%d rows and %d graves, stats %+v: want nothing done", d.rows(t), graves(), s.Stats())
		}
		failing = nil
		if err := s.Sweep(ctx); err != nil || d.rows(t) != 0 || graves() != 1 {
			t.Errorf("then: %v, %d rows and %d graves", err, d.rows(t), graves())
		}
	})
}

// A Bury that panics fails the sweep, and no row is lost.
func TestBuryPanics(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		d.mustInsert(t, "dead", session{}, lasting(time.Minute))
		panics := true
		s := d.mustSweeper(t, SweepOptions{Now: at(base.Add(time.Hour)), Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error {
			if panics {
				panic("no archive")
			}
			return nil
		}})
		if err := s.Sweep(t.Context()); !errors.As(err, new(*driver.PanicError)) || d.rows(t) != 1 {
			t.Errorf("error %v, %d rows; want the panic, and the row", err, d.rows(t))
		}
		panics = false
		if err := s.Sweep(t.Context()); err != nil || d.rows(t) != 0 {
			t.Errorf("then: %v, %d rows", err, d.rows(t))
		}
	})
}

// TestBuryBesideReading: a burial does not wait for another one, and one that fails does not undo
// the other.
func TestBuryBesideReading(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		if dialect == SQLite {
			return // it has one writer at a time
		}
		d := open[session](t, db, dialect, nil)
		for i := range 6 {
			d.mustInsert(t, fmt.Sprint(i), session{}, lasting(time.Minute))
		}
		failing := errors.New("the archive is full")
		var calls, buried atomic.Int64
		second := make(chan struct{})
		s := d.mustSweeper(t, SweepOptions{Batch: 2, Now: at(base.Add(time.Hour)), Bury: func(ctx context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			switch calls.Add(1) {
			case 1:
				select {
				case <-second:
				case <-time.After(time.Minute):
					t.Error("the next rows are not read while a burial goes on")
				}
				return failing
			case 2:
				close(second)
			}
			buried.Add(int64(len(dead)))
			return nil
		}})
		if err := s.Sweep(t.Context()); err != failing {
			t.Errorf("error %v, want that of Bury", err)
		}
		// The other sweeper may be in time to bury the rows of the burial that failed.
		if left, n := d.rows(t), int(buried.Load()); n < 2 || left+n != 6 {
			t.Errorf("%d rows are left and %d were buried, of 6", left, n)
		}
	})
}

// TestSweepersShare: many sweepers run beside touches. Each dead row is buried once, and no live
// one. Without Bury only dead rows are deleted.
func TestSweepersShare(t *testing.T) {
	t.Run("buried", func(t *testing.T) { sweepersShare(t, true) })
	t.Run("deleted", func(t *testing.T) { sweepersShare(t, false) })
}

func sweepersShare(t *testing.T, buries bool) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		const n, sweepers = 400, 4
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		short, long := lasting(time.Minute), lasting(time.Hour)
		metas := make(map[string]driver.Meta)
		for i := range n {
			key := fmt.Sprint(i)
			metas[key] = d.mustInsert(t, key, session{}, short)
		}
		mustExec(t, db, dialect, "CREATE TABLE graves (id VARCHAR(20))")
		kept := make(map[string]bool)
		var group sync.WaitGroup
		for range sweepers {
			o := SweepOptions{Batch: 10, Now: at(short.ExpiresAt)}
			if buries {
				o.Bury = func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error {
					for _, r := range dead {
						if _, err := tx.ExecContext(ctx, "INSERT INTO graves VALUES ('"+r.Key+"')"); err != nil {
							return err
						}
					}
					return nil
				}
			}
			s := d.mustSweeper(t, o)
			group.Go(func() {
				if err := s.Sweep(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		group.Go(func() {
			for key, was := range metas { // a touch by a clock that is a little behind
				switch _, err := d.Touch(ctx, key, was, long, short.ExpiresAt-1); {
				case err == nil:
					kept[key] = true
				case !errors.Is(err, driver.ErrNotFound):
					t.Error(err)
				}
			}
		})
		group.Wait()
		if err := d.mustSweeper(t, SweepOptions{Now: at(short.ExpiresAt)}).Sweep(ctx); err != nil {
			t.Error(err)
		}
		if got := d.rows(t); got != len(kept) {
			t.Errorf("%d rows are left, %d were touched in time", got, len(kept))
		}
		buried := make(map[string]int)
		err := each(ctx, db, "SELECT id FROM graves", nil, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			buried[id]++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for key, times := range buried {
			if times != 1 || kept[key] {
				t.Errorf("a row was buried %d times, and touched in time: %v", times, kept[key])
			}
		}
		if buries && len(buried)+len(kept) != n {
			t.Errorf("%d buried and %d kept of %d", len(buried), len(kept), n)
		}
	})
}

func TestBacklog(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		now := driver.Floor(time.Now())
		backlog := func(when string, wantDead int64, wantOldest driver.Instant) {
			t.Helper()
			if dead, oldest, err := d.Backlog(t.Context()); err != nil || dead != wantDead || oldest != wantOldest {
				t.Errorf("%s: %d since %d, %v; want %d since %d", when, dead, oldest, err, wantDead, wantOldest)
			}
		}
		backlog("an empty table", 0, 0)
		for i, ttl := range []time.Duration{-time.Hour, -2 * time.Hour, time.Hour} {
			life := driver.Life{CreatedAt: now.Add(-3 * time.Hour), ExpiresAt: now.Add(ttl)}
			if _, err := d.Insert(driver.WithOtherClock(t.Context()), fmt.Sprint(i), session{}, life, life.CreatedAt); err != nil {
				t.Fatal(err)
			}
		}
		backlog("two dead rows", 2, now.Add(-2*time.Hour))
		d.retain = 90 * time.Minute
		backlog("one of them retained", 1, now.Add(-2*time.Hour))
		d.retain = 0
		s := d.mustSweeper(t, SweepOptions{}) // by the database's own time
		if err := s.Sweep(t.Context()); err != nil || d.rows(t) != 1 {
			t.Errorf("%v, %d rows left; want 1", err, d.rows(t))
		}
		backlog("after a sweep", 0, 0)
		for _, retain := range []time.Duration{0, time.Hour, 1000 * time.Hour} {
			d := open(t, db, dialect, &Options[session]{Retain: retain})
			life := driver.Life{CreatedAt: now.Add(-5000 * time.Hour), ExpiresAt: now.Add(-2000 * time.Hour)}
			if _, err := d.Insert(driver.WithOtherClock(t.Context()), "guarded", session{}, life, life.CreatedAt); err != nil {
				t.Fatal(err)
			}
			if err := guard(t.Context(), db, d, "guarded", "DELETE"); err != nil {
				t.Fatal(err)
			}
			s := d.mustSweeper(t, SweepOptions{})
			if err := s.Sweep(t.Context()); err != nil || s.Stats().Skipped != 1 {
				t.Errorf("%v, %+v; want one skipped", err, s.Stats())
			}
			if dead, oldest, err := d.Backlog(t.Context()); err != nil || dead != 1 || oldest != life.ExpiresAt {
				t.Errorf("with Retain of %s and a row passed by: %d since %d, %v; want 1 since %d", retain, dead, oldest, err, life.ExpiresAt)
			}
		}
	})
}

func TestSweeperRuns(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		d.mustInsert(t, "a", session{}, lasting(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var reported error
		s := d.mustSweeper(t, SweepOptions{
			Every: time.Millisecond, Rate: 1e6, Now: at(base.Add(time.Hour)),
			Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error {
				if reported == nil {
					return errCut
				}
				cancel() // the transaction, too
				return nil
			},
			OnError: func(err error) {
				reported = err
				panic("a hook's bug")
			},
		})
		s.Run(ctx)
		if !errors.Is(reported, errCut) || s.Stats().Failed != 2 {
			t.Errorf("reported %v, stats %+v", reported, s.Stats())
		}
	})
}

func TestSweepOptions(t *testing.T) {
	d, err := New[session](new(stdsql.DB), SQLite, "t", nil)
	if err != nil {
		t.Fatal(err)
	}
	for field, o := range map[string]SweepOptions{
		"Every": {Every: -1}, "Batch": {Batch: maxBatch + 1}, "Rate": {Rate: -1},
	} {
		var invalid *driver.InvalidError
		if _, err := d.Sweeper(&o); !errors.As(err, &invalid) || invalid.Field != "SweepOptions."+field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// TestSweepWalksIndex: the plan must not sort, which would read all dead rows to find the first,
// nor compute columns before locking, which would include rows that other sweepers have.
func TestSweepWalksIndex(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	d := open[session](t, db, PostgreSQL, nil)
	db.SetMaxOpenConns(1) // settings and prepared statements belong to the connection
	s := d.mustSweeper(t, SweepOptions{})
	mustExec(t, db, PostgreSQL, "INSERT INTO "+d.quoted()+fmt.Sprintf(` (id, value, expires_at, sweep_at)
		SELECT i::text, '{}', i, CASE WHEN i > 20000 THEN i + %d ELSE i END FROM generate_series(1, 40000) i`, park))
	mustExec(t, db, PostgreSQL, "ANALYZE "+d.quoted())
	mustExec(t, db, PostgreSQL, "SET plan_cache_mode = force_generic_plan")
	for name, due := range map[string]string{"due": s.due(), "parked": s.parked()} {
		sweep, _ := s.query(d.rawValue(""), due, 1000)
		mustExec(t, db, PostgreSQL, "PREPARE "+name+" AS "+sweep)
		var plan strings.Builder
		err := each(t.Context(), db, "EXPLAIN (VERBOSE) EXECUTE "+name, nil, func(scan func(...any) error) error {
			var line string
			err := scan(&line)
			plan.WriteString(line + "\n")
			return err
		})
		if err != nil || strings.Contains(plan.String(), "Sort") || !strings.Contains(plan.String(), "Index Cond") {
			t.Errorf("%s: %v\n%s", name, err, plan.String())
		}
		if _, below, ok := strings.Cut(plan.String(), "LockRows"); !ok || strings.Contains(below, "value)::text") {
			t.Errorf("%s: values become text before their rows are locked:\n%s", name, plan.String())
		}
	}
}

// TestSweepSkips: a dead row with a key that is not the driver's, or with a life that cannot be
// read, is handed over with its problem. A row of which it is unknown whether it is dead does not
// stop the sweep.
func TestSweepSkips(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for name, buries := range map[string]bool{"deleted": false, "buried": true} {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				d := open[session](t, db, dialect, nil)
				insert := "INSERT INTO " + d.quoted() + " (id, value, expires_at, created_at) VALUES (?, '{}', ?, ?)"
				mustExec(t, db, dialect, insert, "", 1, 1)
				want := SweepStats{Deleted: 6}
				problems := []string{""}
				if dialect == MySQL {
					mustExec(t, db, dialect, insert, []byte("\xff\xfe"), 1, 1)
					want.Deleted++
					problems = append(problems, "\xff\xfe")
				}
				if dialect == SQLite {
					mustExec(t, db, dialect, insert, "odd", 1, "yesterday")
					mustExec(t, db, dialect, insert, "odd alive", int64(driver.Floor(time.Now().Add(time.Hour))), "yesterday")
					mustExec(t, db, dialect, insert, "odd expiry", "yesterday", 1)
					want.Skipped, want.Filed = 1, 1
					want.Deleted++
					problems = append(problems, "odd")
				}
				for i := range 5 {
					mustExec(t, db, dialect, insert, fmt.Sprint(i), 1, 1)
				}
				var reported error
				o := SweepOptions{Batch: 3, OnError: func(err error) { reported = err }}
				var buried, odd []string
				if buries {
					o.Bury = func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
						for _, r := range dead {
							if buried = append(buried, r.Key); r.Problem != nil {
								odd = append(odd, r.Key)
							}
							if r.At != 1 || string(r.Value) != "{}" {
								t.Errorf("buried %+v", r)
							}
						}
						return nil
					}
				}
				s := d.mustSweeper(t, o)
				if err := s.batches(ctx, ctx, s.rows); err != nil { // one at a time, for the order
					t.Fatal(err)
				}
				got := s.Stats()
				if got != want {
					t.Errorf("stats %+v, want %+v", got, want)
				}
				slices.Sort(buried)
				slices.Sort(odd)
				if all := slices.Sorted(slices.Values(append(problems, "0", "1", "2", "3", "4"))); buries && (!slices.Equal(buried, all) || !slices.Equal(odd, slices.Sorted(slices.Values(problems)))) {
					t.Errorf("buried %q, of them %q with a problem; want those of %q", buried, odd, problems)
				}
				left := uint64(d.rows(t))
				if left != want.Skipped+want.Filed {
					t.Errorf("%d rows are left", left)
				}
				if (reported != nil) != (want.Skipped > 0) {
					t.Errorf("reported %v", reported)
				}
				if err := s.Sweep(ctx); err != nil || s.Stats().Skipped != want.Skipped {
					t.Errorf("again: %v, %+v", err, s.Stats())
				}
			})
		}
	})
}

// TestSweepBytes: the bytes of values handed over at once are bounded too, and a batch that this
// cuts is not the last.
func TestSweepBytes(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, &Options[session]{Replaced: true})
		for range 2 { // the first lives are replaced
			for i := range 10 {
				if _, err := d.Insert(driver.WithOtherClock(t.Context()), fmt.Sprint(i), session{User: strings.Repeat("u", 60)}, lasting(time.Minute), base.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			mustExec(t, db, dialect, "UPDATE "+d.quoted()+" SET created_at = created_at - 1")
		}
		var most, buried atomic.Int64
		s := d.mustSweeper(t, SweepOptions{Batch: 8, Now: at(base.Add(time.Hour)), Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			buried.Add(int64(len(dead)))
			for now := int64(len(dead)); ; {
				if was := most.Load(); now <= was || most.CompareAndSwap(was, now) {
					return nil
				}
			}
		}})
		s.bytes = 100
		if err := s.Sweep(t.Context()); err != nil || buried.Load() != 20 || most.Load() != 2 || d.rows(t) != 0 {
			t.Errorf("%v, %d were buried, %d at once, %d rows are left; want 20, 2 and none", err, buried.Load(), most.Load(), d.rows(t))
		}
	})
}

// TestSweepLargestBatch: the largest batch of keys of several columns is one statement that each database takes.
func TestSweepLargestBatch(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for n, most := range map[int]int{2: 4096, 4: 4096, 8: 2048, 16: 1024} {
			name := fmt.Sprintf("t%d", tables.Add(1))
			names := strings.Fields("k0 k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k12 k13 k14 k15")[:n]
			key := strings.TrimSuffix(dialects[dialect].types().key(40), " NOT NULL") + " NOT NULL"
			mustExec(t, db, dialect, "CREATE TABLE "+name+" ("+strings.Join(names, " "+key+", ")+" "+key+", value "+dialects[dialect].types().value+", created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT, PRIMARY KEY ("+strings.Join(names, ", ")+"))")
			mustExec(t, db, dialect, "CREATE INDEX "+name+"_s ON "+name+" (sweep_at)")
			d, err := New(db, dialect, name, &Options[session]{Key: Key{Columns: names,
				Split: func(k string) (all []any, err error) {
					for _, part := range strings.Split(k, "/") {
						all = append(all, part)
					}
					return all, nil
				}, Join: func(c []string) string { return strings.Join(c, "/") }}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				rows := make([]string, 1000)
				for j := range rows {
					rows[j] = fmt.Sprintf("('%d'%s, '{}', 1, 1)", i*1000+j, strings.Repeat(", 'x'", n-1))
				}
				mustExec(t, db, dialect, "INSERT INTO "+name+" ("+strings.Join(names, ", ")+", value, created_at, expires_at) VALUES "+strings.Join(rows, ", "))
			}
			if _, err := d.Sweeper(&SweepOptions{Batch: most + 1}); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("a batch of %d with a key of %d columns: %v", most+1, n, err)
			}
			s := d.mustSweeper(t, SweepOptions{Batch: most, Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }})
			if err := s.Sweep(t.Context()); err != nil || d.rows(t) != 0 {
				t.Errorf("%d columns: %v, %d rows are left", n, err, d.rows(t))
			}
		}
	})
}
