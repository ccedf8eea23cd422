package main

import (
	"context"
	stdsql "database/sql"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql"
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

// sqlTable is what a URI says of a table.
type sqlTable struct {
	name     string
	retain   time.Duration
	estimate string // a query for how many rows it has, by its name
}

// open opens the table that db holds, and closes db with it.
func (t sqlTable) open(db *stdsql.DB, dialect sql.Dialect, l layout) (*store, error) {
	opts, err := l.table()
	if err == nil {
		var d *sql.Driver[[]any]
		opts.Retain = t.retain
		if d, err = sql.New(db, dialect, t.name, opts); err == nil {
			s := storeOf[[]any](d, func() { _ = db.Close() })
			s.about = func(ctx context.Context) (n int64) {
				if err := db.QueryRowContext(ctx, t.estimate, t.name).Scan(&n); err != nil {
					return 0
				}
				return n
			}
			return s, nil
		}
	}
	_ = db.Close()
	return nil, err
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

// tableOf is the table that a names.
func tableOf(a *address) (sqlTable, error) {
	t := sqlTable{name: a.own["table"], retain: a.retain}
	if t.name == "" {
		return t, errForm
	}
	return t, nil
}
