package sql

import (
	stdsql "database/sql"
	"errors"
	"slices"
	"strings"
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

// TestDyingWalksIndex: only rows whose sweep_at is near are read.
func TestDyingWalksIndex(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	d := open[session](t, db, PostgreSQL, nil)
	mustExec(t, db, PostgreSQL, "INSERT INTO "+d.quoted()+" (id, value, expires_at, sweep_at) SELECT i::text, '{}', i, i FROM generate_series(1, 20000) i")
	mustExec(t, db, PostgreSQL, "ANALYZE "+d.quoted())
	var plan strings.Builder
	where, args := d.dying(5, 100)
	err := each(t.Context(), db, d.dialect.bind("EXPLAIN SELECT id FROM "+d.quoted()+where+" ORDER BY expires_at LIMIT 1000"), args, func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		plan.WriteString(line + "\n")
		return err
	})
	if err != nil || !strings.Contains(plan.String(), "sweep_at") || strings.Contains(plan.String(), "Seq Scan") {
		t.Errorf("%v\n%s", err, plan.String())
	}
}
