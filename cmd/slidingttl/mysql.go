package main

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/slidingttl/slidingttl/drivers/sql"
)

var mysqlKind = kind{
	schemes:     []string{"mysql", "mariadb"},
	form:        "mysql://[user@]host[:port]/database?table=T[&tls=true&retain=D], or mysql:///database?socket=/path&table=T",
	credentials: "set MYSQL_PWD",
	open:        openMySQL,
}

func openMySQL(_ context.Context, u *url.URL, l layout) (*store, error) {
	table, err := tableOf(u)
	if err != nil {
		return nil, err
	}
	socket := parameter(u, "socket")
	connect, err := mysql.ParseDSN("/?" + u.RawQuery) // for tls and the like
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if (u.Host == "") == (socket == "") {
		return nil, errForm
	}
	connect.Net, connect.Addr = "tcp", u.Hostname()+":"+cmp.Or(u.Port(), "3306")
	if socket != "" {
		connect.Net, connect.Addr = "unix", socket
	}
	connect.User, connect.Passwd = u.User.Username(), os.Getenv("MYSQL_PWD")
	connect.DBName = strings.Trim(u.Path, "/")
	connect.InterpolateParams = true
	connector, err := mysql.NewConnector(connect)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return table.open(stdsql.OpenDB(connector), sql.MySQL, l)
}
