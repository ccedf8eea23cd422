package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// spelt is a value that its column may spell otherwise.
type spelt struct{ v any }

func (s spelt) Value() (sqldriver.Value, error) { return s.v, nil }
func (s *spelt) Scan(v any) error               { s.v = v; return nil }

// On MariaDB a value of any columns is handed over whole, or its row stays and says why.
func TestMariaDBObjects(t *testing.T) {
	t.Parallel()
	type row struct {
		No   spelt
		Year spelt
		Data []byte
		Name stdsql.NullString
		JSON string
		Wide string
		Bits []byte
	}
	o := &Options[row]{Replaced: true, Deletes: true, Row: Row[row]{Columns: []string{"no", "y", "data", "name", "j", "wide", "bits"}, Fields: func(r *row) []any {
		return []any{&r.No, &r.Year, &r.Data, &r.Name, &r.JSON, &r.Wide, &r.Bits}
	}}}
	db := sqltest.DB(t, sqltest.MariaDB)
	mustExec(t, db, MySQL, "CREATE TABLE objects (id VARBINARY(40) PRIMARY KEY, no INT(6) ZEROFILL, y YEAR, data LONGBLOB, name VARCHAR(200) CHARACTER SET utf8mb4, j JSON, wide VARCHAR(20) CHARACTER SET utf16, bits BIT(9), created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT, KEY (sweep_at))")
	d, err := New(db, MySQL, "objects", o)
	if err == nil {
		err = errors.Join(d.EnsureTable(t.Context()), d.Check(t.Context(), time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	now := driver.Floor(d.Now())
	insert := func(key string, r row) {
		t.Helper()
		if _, err := d.Insert(t.Context(), key, r, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"no": "000042", "y": "0000", "data": "00FF", "name": null, "j": null, "wide": "\u00e9\ud83d\ude00", "bits": "0102"}`
	for _, key := range []string{"swept", "deleted", "replaced"} {
		insert(key, row{No: spelt{"42"}, Year: spelt{int64(0)}, Data: []byte{0, 255}, JSON: " null\n", Wide: "\u00e9\U0001f600", Bits: []byte{1, 2}})
		raw, err := d.Raw(t.Context(), key)
		if err != nil || !sameJSON(raw.Value, want) || raw.Problem != nil {
			t.Errorf("Raw: %s, %v, %v", raw.Value, raw.Problem, err)
		}
	}
	insert("long", row{No: spelt{"1"}, Data: make([]byte, 9<<20), JSON: "{}"})
	if raw, err := d.Raw(t.Context(), "long"); err != nil || !errors.Is(raw.Problem, driver.ErrInvalid) {
		t.Errorf("Raw of what is too long: %d bytes, %v, %v", len(raw.Value), raw.Problem, err)
	}
	if err := d.Delete(t.Context(), "deleted"); err != nil {
		t.Error(err)
	}
	mustExec(t, db, MySQL, "UPDATE objects SET created_at = 500, expires_at = 1000, sweep_at = 1000")
	insert("replaced", row{No: spelt{"1"}, JSON: "1"})
	var buried []string
	var told []error
	s, err := d.Sweeper(&SweepOptions{OnError: func(err error) { told = append(told, err) }, Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
		for _, d := range dead {
			buried = append(buried, d.Key)
			if !sameJSON(d.Value, want) || d.Problem != nil {
				t.Errorf("%s is buried as %s, %v", d.Key, d.Value, d.Problem)
			}
		}
		return nil
	}})
	if err == nil {
		err = s.Sweep(t.Context())
	}
	slices.Sort(buried)
	if err != nil || !slices.Equal(buried, []string{"deleted", "replaced", "swept"}) || s.Stats().Skipped != 1 {
		t.Errorf("buried are %q; %+v, %v", buried, s.Stats(), err)
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), "max_allowed_packet") {
		t.Errorf("of the row that is skipped OnError hears %v", told)
	}
}

// sameJSON reports whether a is the same value as b.
func sameJSON(a []byte, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// A record without a life is adopted, and the adoption taken back, in columns that hold zero and no NULL.
func TestNoLifeWithoutNull(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		mustExec(t, db, dialect, "CREATE TABLE zeros (id "+strings.TrimSuffix(dialects[dialect].types().key(90), " NOT NULL")+" NOT NULL PRIMARY KEY, value "+dialects[dialect].types().value+
			", created_at BIGINT NOT NULL DEFAULT 0, expires_at BIGINT NOT NULL DEFAULT 0, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT)")
		mustExec(t, db, dialect, "CREATE INDEX zeros_sweep ON zeros (sweep_at)")
		mustExec(t, db, dialect, "INSERT INTO zeros (id, value) VALUES ('k', '{}')")
		d, err := New[any](db, dialect, "zeros", nil)
		if err == nil {
			err = d.Check(t.Context(), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		was, now := driver.Meta{}, driver.Floor(d.Now())
		for _, life := range []driver.Life{{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, {}} {
			if _, err := d.Touch(t.Context(), "k", was, life, now); err != nil {
				t.Fatalf("%+v: %v", life, err)
			}
			e, err := d.Get(t.Context(), "k")
			if err != nil || e.Life != life {
				t.Errorf("a read finds %+v, %v; want %+v", e.Life, err, life)
			}
			was = e.Meta
		}
	})
}
