package hot

import (
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// What a transaction has read, written or found absent is not held: it may be rolled back.
func TestRolledBack(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	inner, err := sql.New[string](db, sql.SQLite, "records", nil)
	ok(t, "sql.New", err)
	ok(t, "EnsureTable", inner.EnsureTable(t.Context()))
	ok(t, "Learn", inner.Learn(t.Context()))
	d, err := hot.New(inner, hot.Bounds{Records: 1000, Staleness: 24 * time.Hour, Absence: 24 * time.Hour}, &hot.Options[string]{LateDeletes: true})
	ok(t, "hot.New", err)
	now := driver.Floor(inner.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for _, key := range []string{"replaced", "touched", "deleted"} {
		_, err := d.Insert(t.Context(), key, "old", life, now)
		ok(t, "Insert", err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	ok(t, "BeginTx", err)
	in := sql.WithTx(t.Context(), tx)
	was, err := d.Get(in, "replaced")
	ok(t, "Get", err)
	_, err = d.Replace(in, "replaced", "new", was.Meta, life, now)
	ok(t, "Replace", err)
	touched, err := d.Get(in, "touched")
	ok(t, "Get", err)
	later := driver.Life{CreatedAt: now, ExpiresAt: now.Add(2 * time.Hour)}
	_, err = d.Touch(in, "touched", touched.Meta, later, now)
	ok(t, "Touch", err)
	_, err = d.Insert(in, "inserted", "new", life, now)
	ok(t, "Insert", err)
	ok(t, "Delete", d.Delete(in, "deleted"))
	all := []string{"replaced", "touched", "inserted", "deleted"}
	for _, key := range all {
		_, _ = d.Get(in, key)
		_, _ = d.Latest(in, key)
	}
	found, err := d.GetMulti(in, all)
	if err != nil || len(found) != 3 || found["replaced"].Value != "new" || found["touched"].Life != later {
		t.Errorf("in the transaction: %+v, %v", found, err)
	}
	ok(t, "Rollback", tx.Rollback())

	for _, key := range []string{"replaced", "touched", "deleted"} {
		if e, err := d.Get(t.Context(), key); err != nil || e.Value != "old" || e.Life != life {
			t.Errorf("%s, after it was rolled back: %+v, %v; want it as before", key, e, err)
		}
	}
	if e, err := d.Get(t.Context(), "inserted"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("inserted, after it was rolled back: %+v, %v", e, err)
	}
}
