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
// A record is one row. By default its value is a column of JSON (encoding/json, json struct
// tags). [Options].Row keeps it in columns of the application's own, and with LifeOnly the
// driver does not touch it. Beside it the driver writes
//
//	created_at  bigint  when it was created, in milliseconds since the Unix epoch
//	expires_at  bigint  when it expires, alike; NULL: never
//	sweep_at    bigint  when the sweeper has to look at it next
//	version     bigint  random, another with every write of the value
//
// under these names or others, the first two also as timestamptz, TIMESTAMP or DATETIME;
// see [Options]. Other columns keep their values.
//
// # Expiry and conditions
//
// These databases do not expire rows. Each condition compares the expiry itself, and the
// store checks what is read. So a dead row is not found, however long it exists. A
// [Sweeper] frees the space.
//
// Every touch would write an index on expires_at. So sweep_at is indexed instead. Of a live
// row it is never later than expires_at. A write of the row sets it, and a touch that moves the
// expiry forward does not. The sweeper takes the rows whose sweep_at has passed, deletes
// dead rows, and sets sweep_at of the others to their expiry. To that of the dead that are
// retained it adds 1<<63 - 1 - 1<<50, and looks there too for rows whose retention is over,
// by its own Retain. Rows from before the column,
// and rows of other programs, have a sweep_at of zero, the column's default: the sweeper
// looks at them at once.
//
// # Conditions
//
// Each write is one statement with its condition, and a transaction of its own. If the
// condition was not met, a SELECT reads the current row. The condition compares with the
// database's time after the row is locked, so a write that waited for a lock until its
// record was dead does not land. A statement that lost to another transaction (a
// serialization failure, a deadlock) did nothing and is tried again.
//
// The version shows that a value was overwritten. Other programs that write values should
// set it to another value, such as a random one. NULL shows only over a row that has a version:
// one that another program inserted has none before the driver writes its value.
//
// # Errors
//
// errors.As finds the database's errors; a text that quotes a key is left out. If the
// answer of a write was lost, the error is driver.ErrAmbiguous, and the write is not sent
// again. ErrBadConn of database/sql/driver means that a statement was never sent, and is sent again, only
// from the clients that are known to return it for nothing else: pgx v5 (stdlib), go-sql-driver/mysql and
// modernc.org/sqlite. Another client's, such as lib/pq's or that of one which wraps these to trace them, is
// driver.ErrAmbiguous.
package sql
