package main

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type sqlLayout struct {
	Key       string   `json:"key"`
	Value     string   `json:"value"`   // one column of JSON
	Columns   []string `json:"columns"` // or several
	CreatedAt string   `json:"created_at"`
	Created   string   `json:"created_at_type"`
	ExpiresAt string   `json:"expires_at"`
	Expires   string   `json:"expires_at_type"`
	SweepAt   string   `json:"sweep_at"`
	Version   string   `json:"version"`
}

var timeTypes = map[string]sql.TimeType{"millis": sql.Millis, "timestamp": sql.Timestamp, "datetime": sql.DateTime}

// openTable opens the table of db that a names, and closes db with it. estimate is a query for how many
// rows it has, by its name, and identity one for what it is.
func openTable(db *stdsql.DB, dialect sql.Dialect, a *address, l layout, estimate, identity string) (*store, error) {
	opts, err := l.table()
	if err == nil && a.own["table"] == "" {
		err = errForm
	}
	var d *sql.Driver[[]any]
	if err == nil {
		opts.Retain = a.retain
		d, err = sql.New(db, dialect, a.own["table"], opts)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s := &store{walked: d, close: func() { _ = db.Close() }}
	s.sessions = func() (driver.Driver[session.Record], error) {
		if opts.Row.Columns != nil {
			return nil, fmt.Errorf("%w: sessions are one column of JSON, and --layout has columns", errUsage)
		}
		return sql.New(db, dialect, a.own["table"], &sql.Options[session.Record]{
			Key: opts.Key, Value: opts.Value, CreatedAt: opts.CreatedAt, ExpiresAt: opts.ExpiresAt, SweepAt: opts.SweepAt, Version: opts.Version, Retain: opts.Retain,
		})
	}
	s.ids = func(ctx context.Context) ([]string, error) {
		var id string
		err := db.QueryRowContext(ctx, identity, a.own["table"]).Scan(&id)
		return []string{id}, err
	}
	s.about = func(ctx context.Context) (n int64) {
		_ = db.QueryRowContext(ctx, estimate, a.own["table"]).Scan(&n)
		return n
	}
	return s, nil
}

// schemer is a driver whose table needs columns and an index.
type schemer interface {
	Schema(ctx context.Context, user string) ([]string, error)
}

// lacking is Schema without what drops the application's triggers: a layout does not tell whether it asks for them.
func lacking(ctx context.Context, d schemer, user string) ([]string, error) {
	statements, err := d.Schema(ctx, user)
	return slices.DeleteFunc(statements, func(s string) bool { return strings.HasPrefix(s, "DROP TRIGGER ") }), err
}

func (a *app) schema() *cobra.Command {
	var t target
	var user string
	c := &cobra.Command{
		Use:   "schema STORE",
		Short: "Print the statements that a SQL table lacks, to be run one by one; writes nothing",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := t.open(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			defer s.close()
			d, ok := s.walked.(schemer)
			if !ok {
				return fmt.Errorf("%w: only SQL has a schema", errUsage)
			}
			statements, err := lacking(c.Context(), d, user)
			if err != nil {
				return err
			}
			return a.summary(statements, "-- slidingttl schema\n%s", strings.Join(append(statements, ""), ";\n"))
		},
	}
	t.flags(c)
	c.Flags().StringVar(&user, "grant", "", "print the rights of this `user` too, as GRANT names it")
	return c
}

// table is the options that l says. No value is read as a Go value.
func (l layout) table() (*sql.Options[[]any], error) {
	var names sqlLayout
	if err := l.into(&names); err != nil {
		return nil, err
	}
	created, err := choice("created_at_type", names.Created, timeTypes)
	if err != nil {
		return nil, err
	}
	expires, err := choice("expires_at_type", names.Expires, timeTypes)
	if err != nil {
		return nil, err
	}
	o := &sql.Options[[]any]{
		Value:     names.Value,
		CreatedAt: sql.TimeColumn{Name: names.CreatedAt, Type: created},
		ExpiresAt: sql.TimeColumn{Name: names.ExpiresAt, Type: expires},
		SweepAt:   names.SweepAt,
		Version:   names.Version,
	}
	if names.Key != "" {
		o.Key.Columns = []string{names.Key}
	}
	if len(names.Columns) > 0 {
		o.Row = sql.Row[[]any]{Columns: names.Columns, Fields: func(*[]any) []any { return make([]any, len(names.Columns)) }}
	}
	return o, nil
}
