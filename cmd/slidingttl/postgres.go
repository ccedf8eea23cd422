package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/slidingttl/slidingttl/drivers/sql"
)

var postgresKind = kind{
	schemes:     []string{"postgres", "postgresql"},
	form:        "postgres://[user@]host[:port]/database?table=[schema.]T[&retain=D]",
	credentials: "set PGPASSWORD, or PGPASSFILE",
	open:        openPostgres,
}

func openPostgres(_ context.Context, u *url.URL, l layout) (*store, error) {
	table, err := tableOf(u)
	if err != nil {
		return nil, err
	}
	connect, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return table.open(stdlib.OpenDB(*connect), sql.PostgreSQL, l)
}
