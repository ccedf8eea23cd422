package sql

import (
	stdsql "database/sql"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// fill writes n rows with the keys that key returns, in few statements.
func fill(t testing.TB, db *stdsql.DB, d *Driver[session], n int, key func(i int) string) {
	t.Helper()
	row := "(" + listed("?", len(d.key.Columns)) + ", '{}')"
	for i := 0; i < n; i += 500 {
		var args []any
		rows := 0
		for ; rows < 500 && i+rows < n; rows++ {
			k, err := d.key.row(key(i+rows), 0)
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, k.columns...)
		}
		statement := "INSERT INTO " + d.quoted() + " (" + strings.Join(d.keyColumns(), ", ") + ", value) VALUES " + listed(row, rows)
		if _, err := db.ExecContext(t.Context(), d.dialect.bind(statement), args...); err != nil {
			t.Fatal(err)
		}
	}
}

// sizes returns the number of rows of each segment.
func sizes(t testing.TB, d *Driver[session], n int) (sizes []int) {
	t.Helper()
	cursors, err := d.Segments(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, at := range cursors {
		size := 0
		for at != "" {
			page, err := d.Scan(t.Context(), at, 300)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				if seen[r.Key] {
					t.Error("a record is in two segments")
				}
				seen[r.Key] = true
			}
			size += len(page.Records)
			at = page.Next
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// Keys that are not one text: a whole number, and a shop's name with an id.
var (
	wholeKey = Options[session]{Key: Key{
		Split: func(key string) ([]any, error) {
			n, err := strconv.ParseInt(key, 10, 64)
			return []any{n}, err
		},
	}}
	shopKey = Options[session]{Key: Key{
		Columns: []string{"shop", "id"},
		Split: func(key string) ([]any, error) {
			shop, id, _ := strings.Cut(key, "/")
			return []any{shop, id}, nil
		},
		Join: func(c []string) string { return c[0] + "/" + c[1] },
	}}
)

func TestSegments(t *testing.T) {
	const n = 1200
	hash := func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }
	for name, of := range map[string]struct {
		opts    *Options[session]
		columns map[Dialect]string // nil: as EnsureTable makes them
		key     func(i int) string
		least   int // segments out of 8
	}{
		"hex": {nil, nil, func(i int) string { return fmt.Sprintf("session:%016x", hash(i)) }, 8},
		"base64": {nil, nil, func(i int) string {
			return base64.URLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, hash(i)))
		}, 8},
		"counted": {nil, nil, func(i int) string { return fmt.Sprintf("user::%08d", i) }, 8},
		"growing": {nil, nil, func(i int) string { return fmt.Sprint(i) }, 8},
		"whole": {&wholeKey, map[Dialect]string{PostgreSQL: "id BIGINT", MySQL: "id BIGINT", SQLite: "id INTEGER"},
			func(i int) string { return strconv.FormatInt(int64(hash(i)), 10) }, 8},
		"pairs": {&shopKey, map[Dialect]string{PostgreSQL: "shop TEXT, id TEXT", MySQL: "shop VARBINARY(20), id VARCHAR(40)", SQLite: "shop TEXT, id TEXT"},
			func(i int) string { return fmt.Sprintf("one/%016x", hash(i)) }, 8},
		"shops": {&shopKey, map[Dialect]string{PostgreSQL: "shop TEXT, id TEXT", MySQL: "shop VARBINARY(20), id VARCHAR(40)", SQLite: "shop TEXT, id TEXT"},
			func(i int) string { return fmt.Sprintf("%c/%016x", 'a'+i%20, hash(i)) }, 8},
		"uuid": {nil, map[Dialect]string{PostgreSQL: "id UUID", MySQL: "id VARBINARY(36)", SQLite: "id TEXT"},
			func(i int) string {
				h := fmt.Sprintf("%016x%016x", hash(i), hash(i+7))
				return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
			}, 8},
		"one": {nil, nil, func(int) string { return "x" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
				rows := n
				if name == "one" {
					rows = 1
				}
				var d *Driver[session]
				if of.columns == nil {
					d = open(t, db, dialect, of.opts)
				} else {
					var err error
					if d, err = New(db, dialect, "keyed", of.opts); err != nil {
						t.Fatal(err)
					}
					mustExec(t, db, dialect, "CREATE TABLE keyed ("+of.columns[dialect]+", value TEXT, PRIMARY KEY ("+strings.Join(d.keyColumns(), ", ")+"))")
					if err := d.EnsureTable(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := sizes(t, d, 8); len(got) != 1 || got[0] != 0 {
					t.Errorf("an empty table has segments of %v", got)
				}
				fill(t, db, d, rows, of.key)
				got := sizes(t, d, 8)
				sum, largest := 0, 0
				for _, size := range got {
					sum += size
					largest = max(largest, size)
				}
				if sum != rows || len(got) < of.least {
					t.Errorf("%d rows in %d segments; want %d in %d at least", sum, len(got), rows, of.least)
				}
				if of.least == 8 && largest > rows/4 { // twice an even share
					t.Errorf("segments of %v", got)
				}
				if name == "counted" {
					if most := slices.Max(sizes(t, d, 1000)); most > 2 { // a sample takes them for alike
						t.Errorf("of 1000 segments one has %d of %d rows", most, rows)
					}
				}
			})
		})
	}
}

// TestSegmentsWalkIndex: the database reads only the rows between a segment's bounds.
func TestSegmentsWalkIndex(t *testing.T) {
	db := sqltest.DB(t, sqltest.MariaDB)
	d := open[session](t, db, MySQL, nil)
	fill(t, db, d, 5000, func(i int) string { return fmt.Sprintf("%05d", i) })
	mustExec(t, db, MySQL, "ANALYZE TABLE "+d.quoted())
	where, args, err := d.where(span{After: newBound([]any{"02000"}), To: newBound([]any{"02100"})})
	if err != nil {
		t.Fatal(err)
	}
	var kind stdsql.NullString
	var rows int64
	skip := new(stdsql.NullString)
	err = db.QueryRowContext(t.Context(), "EXPLAIN SELECT * FROM "+d.quoted()+where+" ORDER BY id LIMIT 1000", args...).
		Scan(skip, skip, skip, &kind, skip, skip, skip, skip, &rows, skip)
	if err != nil || kind.String != "range" || rows > 500 {
		t.Errorf("a segment of 100 rows: %v, access by %q to %d rows", err, kind.String, rows)
	}
	for _, c := range []driver.Cursor{"{", driver.EncodeCursor(map[string]int{"after": 1}), driver.EncodeCursor([]string{"x"})} {
		if _, err := d.Scan(t.Context(), c, 1); err == nil {
			t.Errorf("the cursor %s is taken", c)
		}
	}
}
