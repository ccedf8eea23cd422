package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/slidingttl/slidingttl/drivers/sql"
)

var postgresKind = kind{
	schemes: []string{"postgres", "postgresql"},
	form:    "postgres://[user@]host[:port]/database?table=[schema.]T[&retain=D]",
	params: parameters{
		"table": text, "retain": span,
		"host": client, "port": client, "user": client, "database": client, "dbname": client, "passfile": client,
		"service": client, "servicefile": client, "connect_timeout": client, "target_session_attrs": client,
		"sslmode": client, "sslkey": client, "sslcert": client, "sslcertmode": client, "sslrootcert": client,
		"sslnegotiation": client, "sslsni": client, "min_protocol_version": client, "max_protocol_version": client,
		"channel_binding": client, "require_auth": client, "krbspn": client, "krbsrvname": client,
		"application_name": client, "options": client, "search_path": client, "statement_timeout": client,
		"lock_timeout": client, "timezone": client, "default_query_exec_mode": client,
		"statement_cache_capacity": client, "description_cache_capacity": client,
	},
	credentials: "set PGPASSWORD, or PGPASSFILE",
	keeps:       "dead tuples until VACUUM, the WAL and its archive, replicas until they follow, and backups",
	open:        openPostgres,
}

func openPostgres(_ context.Context, a *address, l layout) (*store, error) {
	connect, err := pgx.ParseConfig(a.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	const estimate = "SELECT GREATEST(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass($1)"
	const identity = `SELECT 'system ' || (SELECT system_identifier FROM pg_control_system()) || ', database ' || d.oid || ', table ' || to_regclass($1)::oid
		FROM pg_database d WHERE datname = current_database()`
	return openTable(stdlib.OpenDB(*connect), sql.PostgreSQL, a, l, estimate, identity)
}
