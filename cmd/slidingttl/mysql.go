package main

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/slidingttl/slidingttl/drivers/sql"
)

var mysqlKind = kind{
	schemes: []string{"mysql", "mariadb"},
	form:    "mysql://[user@]host[:port]/database?table=T[&tls=true&retain=D], or mysql:///database?socket=/path&table=T",
	params: parameters{
		"table": text, "retain": span, "socket": text,
		"tls": client, "timeout": client, "readTimeout": client, "writeTimeout": client, "charset": client, "collation": client,
		"allowCleartextPasswords": client, "allowNativePasswords": client, "serverPubKey": client, "maxAllowedPacket": client,
	},
	credentials: "set MYSQL_PWD",
	keeps:       "the undo log until it is purged, the binary log until it expires, replicas until they follow, and backups",
	open:        openMySQL,
}

func openMySQL(_ context.Context, a *address, l layout) (*store, error) {
	socket := a.own["socket"]
	connect, err := mysql.ParseDSN("/?" + a.RawQuery) // for tls and the like
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if (a.Host == "") == (socket == "") {
		return nil, errForm
	}
	connect.Net, connect.Addr = "tcp", a.Hostname()+":"+cmp.Or(a.Port(), "3306")
	if socket != "" {
		connect.Net, connect.Addr = "unix", socket
	}
	connect.User, connect.Passwd = a.User.Username(), os.Getenv("MYSQL_PWD")
	connect.DBName = strings.Trim(a.Path, "/")
	connect.InterpolateParams = true
	connector, err := mysql.NewConnector(connect)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	const estimate = "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	// MariaDB has no server_uuid, and its server_id is 1 unless it is set.
	const identity = "SELECT CONCAT(@@hostname, ':', @@port, ' ', @@datadir, ', ', table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	return openTable(stdsql.OpenDB(connector), sql.MySQL, a, l, estimate, identity)
}
