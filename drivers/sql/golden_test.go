package sql

import (
	"bytes"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/golden"
)

// TestGolden creates the tables as they were and calls EnsureTable. Then it writes rows with the
// columns that they had.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden.Run(t, func(t *testing.T, layout string, retain time.Duration) golden.Store {
		name, kind, _ := strings.Cut(layout, "-")
		dialect := databases[name].dialect
		table, opts := "records", Options[value]{Version: "version"}
		if kind == "own" {
			table, opts = "own", own
		}
		opts.Retain = retain
		db := sqltest.DB(t, databases[name].server)
		ddl, err := os.ReadFile(filepath.Join("testdata", golden.Release, layout+".sql"))
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(string(ddl), ";\n") {
			if statement = strings.TrimSpace(statement); statement != "" {
				mustExec(t, db, dialect, statement)
			}
		}
		d, err := New(db, dialect, table, &opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.EnsureTable(t.Context()); err != nil {
			t.Fatal(err)
		}
		return golden.Store{Driver: d, Plant: func(raw json.RawMessage) error { return plantRow(t, db, dialect, d, raw) }}
	})
}

// plantRow writes a row over its key's. On PostgreSQL it is the JSON that PostgreSQL made of it.
func plantRow(t *testing.T, db *stdsql.DB, dialect Dialect, d *Driver[value], raw json.RawMessage) error {
	var row map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if err := numbers.Decode(&row); err != nil {
		return err
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if dialect == MySQL { // a TIMESTAMP is read and written in the session's zone
		if _, err := tx.ExecContext(t.Context(), "SET time_zone = '+00:00'"); err != nil {
			return err
		}
	}
	var where []string
	for _, c := range d.keyColumns() {
		where = append(where, fmt.Sprintf("%s = '%v'", c, row[strings.Trim(c, "`\"")]))
	}
	if _, err := tx.ExecContext(t.Context(), "DELETE FROM "+d.quoted()+" WHERE "+strings.Join(where, " AND ")); err != nil {
		return err
	}
	if dialect == PostgreSQL {
		_, err = tx.ExecContext(t.Context(), "INSERT INTO "+d.quoted()+" SELECT * FROM json_populate_record(null::"+d.quoted()+", $1)", string(raw))
	} else {
		var columns []string
		var args []any
		for c, v := range row {
			if n, ok := v.(json.Number); ok {
				v, _ = n.Int64()
			}
			columns, args = append(columns, d.dialect.quote(c)), append(args, v)
		}
		_, err = tx.ExecContext(t.Context(), "INSERT INTO "+d.quoted()+" ("+strings.Join(columns, ", ")+") VALUES ("+listed("?", len(args))+")", args...)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}
