package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// On MariaDB a value of any columns is handed over whole, or its row stays and says why.
func TestMariaDBObjects(t *testing.T) {
	t.Parallel()
	type row struct {
		No   string
		Year int64
		Data []byte
		Name stdsql.NullString
		JSON string
	}
	o := &Options[row]{Row: Row[row]{Columns: []string{"no", "y", "data", "name", "j"}, Fields: func(r *row) []any { return []any{&r.No, &r.Year, &r.Data, &r.Name, &r.JSON} }}}
	db := sqltest.DB(t, sqltest.MariaDB)
	mustExec(t, db, MySQL, "CREATE TABLE objects (id VARBINARY(40) PRIMARY KEY, no INT(6) ZEROFILL, y YEAR, data LONGBLOB, name VARCHAR(200) CHARACTER SET utf8mb4, j JSON, created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT, KEY (sweep_at))")
	d, err := New(db, MySQL, "objects", o)
	if err != nil {
		t.Fatal(err)
	}
	now := driver.Floor(d.Now())
	insert := func(key string, r row) {
		t.Helper()
		if _, err := d.Insert(t.Context(), key, r, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Second)}, now); err != nil {
			t.Fatal(err)
		}
	}
	insert("small", row{No: "42", Data: []byte{0, 255}, JSON: "null"})
	insert("long", row{No: "1", Data: make([]byte, 9<<20), JSON: "{}"})
	want := `{"no": "000042", "y": "0000", "data": "00FF", "name": null, "j": null}`
	raw, err := d.Raw(t.Context(), "small")
	if err != nil || string(raw.Value) != want || raw.Problem != nil {
		t.Errorf("Raw: %s, %v, %v", raw.Value, raw.Problem, err)
	}
	if raw, err := d.Raw(t.Context(), "long"); err != nil || !errors.Is(raw.Problem, driver.ErrInvalid) {
		t.Errorf("Raw of what is too long: %d bytes, %v, %v", len(raw.Value), raw.Problem, err)
	}
	mustExec(t, db, MySQL, "UPDATE objects SET expires_at = 1000, sweep_at = 1000")
	var buried []string
	s, err := d.Sweeper(&SweepOptions{Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
		for _, d := range dead {
			buried = append(buried, string(d.Value))
		}
		return nil
	}})
	if err == nil {
		err = s.Sweep(t.Context())
	}
	if got := strings.Join(buried, "; "); err != nil || got != want || s.Stats().Skipped != 1 {
		t.Errorf("buried are %.200s; %+v, %v", got, s.Stats(), err)
	}
}
