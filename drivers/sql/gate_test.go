package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// loadHostile writes a row that no driver writes. A database's error is the reason why its table
// cannot hold the row.
func loadHostile(ctx context.Context, db *stdsql.DB, d *Driver[value], r drivertest.HostileRecord) error {
	values, err := d.codec.encode(value{Text: strings.Repeat("x", r.Size)})
	if err != nil {
		return err
	}
	q := d.dialect.quote
	columns, args := d.keyColumns(), []any{r.Key}
	switch {
	case len(columns) == 1 && r.Alien:
		return errors.ErrUnsupported
	case r.Alien:
		args = []any{int64(99), r.Key}
	case len(columns) > 1:
		args = []any{int64(len(r.Key) % 3), r.Key}
	}
	marks := listed("?", len(args))
	for i, c := range d.values {
		columns, marks, args = append(columns, q(c)), marks+", ?", append(args, values[i])
	}
	for _, c := range []struct {
		TimeColumn
		at int64
	}{{d.created, r.CreatedAt}, {d.expires, r.ExpiresAt.UnixMilli()}} {
		if c.at != 0 {
			columns, marks, args = append(columns, q(c.Name)), marks+", "+d.dialect.written(c.Type, "?"), append(args, c.at)
		}
	}
	_, err = db.ExecContext(ctx, d.dialect.bind("INSERT INTO "+d.quoted()+" ("+strings.Join(columns, ", ")+") VALUES ("+marks+")"), args...)
	if err == nil && r.Guarded {
		return guard(ctx, db, d, r.Key, "UPDATE", "DELETE")
	}
	_, postgres := errors.AsType[*pgconn.PgError](err)
	_, mysql := errors.AsType[*gomysql.MySQLError](err)
	if postgres || mysql {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}

// guard creates triggers that refuse those writes of a row.
func guard[T any](ctx context.Context, db *stdsql.DB, d *Driver[T], key string, events ...string) error {
	speaks := d.dialect
	if m, ok := speaks.(moved); ok {
		speaks = m.dialect
	}
	columns := d.keyColumns()
	is := "OLD." + columns[len(columns)-1] + " = '" + key + "'"
	var statements []string
	for _, event := range events {
		name := fmt.Sprintf("guard_%s_%s", strings.ReplaceAll(d.name, ".", "_"), event)
		switch speaks.(type) {
		case postgres:
			statements = append(statements,
				"CREATE OR REPLACE FUNCTION guarded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'guarded'; END $$",
				"CREATE TRIGGER "+name+" BEFORE "+event+" ON "+d.quoted()+" FOR EACH ROW WHEN ("+is+") EXECUTE FUNCTION guarded()")
		case mysql:
			statements = append(statements, "CREATE TRIGGER "+name+" BEFORE "+event+" ON "+d.quoted()+
				" FOR EACH ROW IF "+is+" THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'guarded'; END IF")
		default:
			statements = append(statements, "CREATE TRIGGER "+name+" BEFORE "+event+" ON "+d.quoted()+
				" WHEN "+is+" BEGIN SELECT RAISE(ABORT, 'guarded'); END")
		}
	}
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// sweep is Backend.Sweep.
func sweep(t testing.TB, d *Driver[value]) func(context.Context) error {
	s, err := d.Sweeper(&SweepOptions{Now: d.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s.Sweep
}
