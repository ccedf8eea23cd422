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
// It needs sh and the server's programs, from the PATH or from where Debian's packages
// postgresql and mariadb-server put them. To use a server that runs already, name it in
// SQLTEST_POSTGRES or SQLTEST_MYSQL, by a DSN of pgx or go-sql-driver/mysql whose user may
// create schemas; it is left running. Without any of these, a test that needs the server fails
// and says what to install. SQLite needs nothing.
//
// PostgreSQL refuses to run as root. For tests that run as root it runs as the user postgres,
// and MariaDB as mysql.
//
// # One server for many tests
//
// A server takes one to a few seconds to start. DB gives the test its own, unless the
// package's TestMain calls [Main]: then all tests share one of each kind, which starts with the
// first test and stops after the last. Each test gets its own schema, which is dropped at its
// end.
//
// # What is unlike production
//
// The server does not flush to disk (fsync is off), so writes are faster than in production. It
// listens on a socket in a temporary directory, and ends with the program, even if that is
// killed.
package sqltest
