package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestDying: records that die soon are listed by their expiry, wherever the index has them.
func TestDying(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open(t, db, dialect, &Options[session]{Retain: time.Hour})
		d.mustInsert(t, "third", session{}, lasting(3*time.Minute))
		d.mustInsert(t, "first", session{User: "ann"}, lasting(time.Minute))
		touched := d.mustInsert(t, "touched away", session{}, lasting(time.Minute))
		if _, err := d.Touch(ctx, "touched away", touched, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
		touched = d.mustInsert(t, "touched", session{}, lasting(time.Minute))
		if _, err := d.Touch(ctx, "touched", touched, lasting(2*time.Minute), base); err != nil {
			t.Fatal(err)
		}
		d.mustInsert(t, "later", session{}, lasting(time.Hour))
		d.mustInsert(t, "forever", session{}, driver.Life{CreatedAt: base})
		d.mustInsert(t, "dead", session{}, lasting(time.Second))
		mustExec(t, db, dialect, "INSERT INTO "+d.quoted()+" (id, value, expires_at) VALUES (?, '{}', ?)", "foreign", int64(base.Add(4*time.Minute)))

		now, until := base.Add(time.Second), base.Add(4*time.Minute)
		for limit, want := range map[int][]string{10: {"first", "touched", "third", "foreign"}, 2: {"first", "touched"}} {
			records, err := d.Dying(ctx, now, until, limit)
			var got []string
			for _, r := range records {
				got = append(got, r.Key)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("limit %d: %q, %v; want %q", limit, got, err, want)
			}
			if r := records[0]; r.Life != lasting(time.Minute) || r.HeldUntil != r.ExpiresAt.Add(time.Hour) || r.Problem != nil {
				t.Errorf("limit %d: %+v", limit, r)
			}
		}
		var invalid *driver.InvalidError
		if _, err := d.Dying(ctx, now, until, 0); !errors.As(err, &invalid) {
			t.Errorf("no limit: %v", err)
		}
	})
}

// TestDyingWalksIndex: only rows whose sweep_at is near are read, also beside the retained dead.
func TestDyingWalksIndex(t *testing.T) {
	for _, retain := range []time.Duration{0, time.Hour} {
		db := sqltest.DB(t, sqltest.PostgreSQL)
		d := open(t, db, PostgreSQL, &Options[session]{Retain: retain})
		mustExec(t, db, PostgreSQL, "INSERT INTO "+d.quoted()+" (id, value, expires_at, sweep_at) SELECT i::text, '{}', i, i FROM generate_series(1, 20000) i")
		now := driver.Instant(5)
		if retain > 0 {
			now = 19_900
			if err := d.mustSweeper(t, SweepOptions{Now: at(now)}).Sweep(t.Context()); err != nil || d.rows(t) != 20_000 {
				t.Errorf("%d rows are left, %v", d.rows(t), err)
			}
		}
		mustExec(t, db, PostgreSQL, "ANALYZE "+d.quoted())
		var plan strings.Builder
		where, args := d.dying(now, now+95)
		err := each(t.Context(), db, d.dialect.bind("EXPLAIN SELECT id FROM "+d.quoted()+where+" ORDER BY expires_at LIMIT 1000"), args, func(scan func(...any) error) error {
			var line string
			err := scan(&line)
			plan.WriteString(line + "\n")
			return err
		})
		if err != nil || !strings.Contains(plan.String(), "sweep_at") || strings.Contains(plan.String(), "Seq Scan") {
			t.Errorf("retained for %v: %v\n%s", retain, err, plan.String())
		}
	}
}

// TestSweepRetained: the retained dead are taken once when they are dead, and once more when their
// retention is over. A record that replaces one has its own sweep_at.
func TestSweepRetained(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open(t, db, dialect, &Options[session]{Retain: time.Hour})
		d.mustInsert(t, "dead", session{}, lasting(time.Minute))
		d.mustInsert(t, "replaced", session{}, lasting(time.Minute))
		d.mustInsert(t, "live", session{}, lasting(90*time.Minute))
		d.mustInsert(t, "forever", session{}, driver.Life{CreatedAt: base})
		touched := d.mustInsert(t, "touched", session{}, lasting(time.Minute))
		if _, err := d.Touch(ctx, "touched", touched, lasting(80*time.Minute), base); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex // a sweep calls Bury at once for several batches
		var buried []driver.Dead
		sweep := func(after time.Duration, want SweepStats) {
			t.Helper()
			s := d.mustSweeper(t, SweepOptions{Now: at(base.Add(after)), Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
				mu.Lock()
				defer mu.Unlock()
				buried = append(buried, dead...)
				return nil
			}})
			err := s.Sweep(ctx)
			if got := s.Stats(); err != nil || got.Deleted != want.Deleted || got.Filed != want.Filed {
				t.Errorf("after %v: %+v, %v; want %+v", after, got, err, want)
			}
		}
		sweep(2*time.Minute, SweepStats{Filed: 3}) // touched, and two that are retained
		sweep(3*time.Minute, SweepStats{})
		short := driver.Life{CreatedAt: base.Add(4 * time.Minute), ExpiresAt: base.Add(10 * time.Minute)}
		if _, err := d.Insert(driver.WithOtherClock(ctx), "replaced", session{}, short, base.Add(4*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if records, err := d.Dying(ctx, base.Add(5*time.Minute), base.Add(30*time.Minute), 10); err != nil || len(records) != 1 || records[0].Key != "replaced" {
			t.Errorf("dying are %+v, %v", records, err)
		}
		sweep(20*time.Minute, SweepStats{Filed: 1})
		sweep(62*time.Minute, SweepStats{Deleted: 1})
		sweep(71*time.Minute, SweepStats{Deleted: 1})
		sweep(85*time.Minute, SweepStats{Filed: 1})
		sweep(300*time.Minute, SweepStats{Deleted: 2})
		if len(buried) != 4 || buried[0].Key != "dead" || buried[0].At != base.Add(time.Minute) || d.rows(t) != 1 {
			t.Errorf("buried are %+v; %d rows are left", buried, d.rows(t))
		}
	})
}

// TestSweepOtherRetention: a sweeper goes by its own Retain, whatever that of the sweeper was that saw a
// dead row first.
func TestSweepOtherRetention(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for n := range 6 {
			ctx, bury := t.Context(), n%2 == 0
			d := open(t, db, dialect, &Options[session]{Retain: 30 * 24 * time.Hour, ExpiresAt: TimeColumn{Type: TimeType(n / 2)}})
			now, err := d.ask(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				created := driver.Floor(now.At).Add(-3 * time.Hour)
				life := driver.Life{CreatedAt: created, ExpiresAt: created.Add(time.Hour + time.Duration(i)*10*time.Minute)}
				if _, err := d.Insert(driver.WithOtherClock(ctx), strings.Repeat("k", i+1), session{}, life, created); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				retain    time.Duration
				left      int
				filed     uint64
				remaining int // in the backlog before
			}{
				{30 * 24 * time.Hour, 10, 10, 0},
				{time.Hour + 35*time.Minute, 7, 0, 3},
				{24 * time.Hour, 7, 0, 0}, // longer again
				{time.Hour + 5*time.Minute, 4, 0, 3},
				{0, 0, 0, 4},
			} {
				d.retain = c.retain
				if dead, oldest, err := d.Backlog(ctx); err != nil || dead != int64(c.remaining) || (oldest != 0) != (dead > 0) {
					t.Errorf("retained for %v: the backlog is %d since %d, %v; want %d", c.retain, dead, oldest, err, c.remaining)
				}
				var buried atomic.Int64
				before := d.rows(t)
				o := SweepOptions{Batch: 2}
				if bury {
					o.Bury = func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
						buried.Add(int64(len(dead)))
						return nil
					}
				}
				s := d.mustSweeper(t, o)
				if err := s.Sweep(ctx); err != nil || d.rows(t) != c.left || s.Stats().Filed != c.filed || bury && int(buried.Load()) != before-c.left {
					t.Errorf("retained for %v: %d rows are left, %d buried, %+v, %v; want %d left", c.retain, d.rows(t), buried.Load(), s.Stats(), err, c.left)
				}
				if err := s.Sweep(ctx); err != nil || s.Stats().Filed != c.filed {
					t.Errorf("retained for %v, again: %+v, %v", c.retain, s.Stats(), err)
				}
			}
		}
	})
}
