// Package sqltest gives tests and examples a database: PostgreSQL, MariaDB or SQLite. It
// starts real servers, without Docker; SQLite runs in the process.
//
//	func TestMain(m *testing.M) { os.Exit(sqltest.Main(m)) }
//
//	func TestSessions(t *testing.T) {
//		db := sqltest.DB(t, sqltest.PostgreSQL) // a *sql.DB, empty
//		...
//	}
//
// # What it needs
//
// sh, and the programs of the server, which Debian has in the packages postgresql and
// mariadb-server. They are looked for on the PATH and where Debian puts them. The
// variable SQLTEST_POSTGRES or SQLTEST_MYSQL names a server that runs already, by a DSN
// of pgx or go-sql-driver/mysql whose user may create schemas; it is then used and left
// running. Without any of them a test that wants the server fails, and says what to
// install. SQLite needs nothing.
//
// PostgreSQL refuses to run as root. Tests that run as root have it run as the user
// postgres, and MariaDB as mysql.
//
// # One server for many tests
//
// A server takes one to a few seconds to start. DB gives the test its own, unless the
// package's TestMain calls [Main]: then all share one of each kind, which starts with the
// first and stops after the last. Each test gets a schema of its own, dropped at its end.
//
// # What is unlike production
//
// Nothing is ever flushed to the disk (fsync is off), so writes are faster than they will
// be. The server listens on a socket in a temporary directory, and ends with the program,
// however that ends.
package sqltest
