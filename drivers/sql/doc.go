// Package sql keeps slidingttl's records in a table of PostgreSQL, MySQL, MariaDB or
// SQLite. It uses the application's own *sql.DB.
//
//	db, err := stdsql.Open("pgx", dsn)
//	d, err := sql.New[Session](db, sql.PostgreSQL, "sessions", nil)
//	...
//	if err := d.Check(ctx, 90*24*time.Hour); err != nil { // once, at start-up
//	...
//	store, err := slidingttl.New(d, policy, nil)
//	...
//	sweeper, err := d.Sweeper(nil)
//	go sweeper.Run(ctx)
//
// # What is stored
//
// A record is one row. By default its value is a column of JSON (encoding/json, json
// struct tags); [Options].Row keeps it in columns of the application's own, and
// LifeOnly leaves it alone. Beside it the driver keeps
//
//	created_at  bigint  when it was created, in milliseconds since the Unix epoch
//	expires_at  bigint  when it expires, alike; NULL: never
//	sweep_at    bigint  when the sweeper has to look at it next
//	version     bigint  random, another with every write of the value
//
// under these names or others, the first two also as timestamptz, TIMESTAMP or DATETIME;
// see [Options]. Columns that the driver does not know keep what they hold.
//
// # Expiry
//
// These databases expire nothing by themselves. Every condition written here looks at
// the expiry itself, and the store above at what is read, so a row that is dead is not
// found, however long it is there; a [Sweeper] is what frees the space.
//
// An index on expires_at would be written by every touch. sweep_at is indexed instead: it
// is never later than expires_at, is written when a row is, and left alone by a touch that
// moves the expiry forward. The sweeper takes the rows whose sweep_at has come, deletes
// those that are dead, and files the others at their expiry. A row with a sweep_at of zero,
// which is the column's default, is looked at at once and filed: rows that were there
// before the column, and rows of other programs.
//
// # Conditions
//
// Each write is one statement, a transaction by itself, with its condition in it. Where
// that was not met, a SELECT follows for what is. The time in it is the database's once the row is at
// hand, so what waited for a lock until its record was dead does not land. A statement that lost to another
// transaction (a serialization failure, a deadlock) did nothing and is tried again.
//
// The version tells that a value was overwritten. Programs that write values beside this
// driver should give it another, or NULL.
//
// # Errors
//
// The database's errors stay reachable with errors.As; a text that quotes a key is left
// out. A write whose answer was lost is driver.ErrAmbiguous and is not sent again, neither
// here nor by database/sql: that sends again what its driver calls driver.ErrBadConn, which
// pgx and go-sql-driver/mysql do only with what never left.
package sql
