package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/slidingttl/slidingttl/drivers/sql"
)

var sqliteKind = kind{
	schemes:     []string{"sqlite"},
	form:        "sqlite:path/to/file.db?table=T[&retain=D]",
	params:      parameters{"table": text, "retain": span},
	credentials: "protect the file instead: SQLite knows no passwords",
	keeps:       "what other connections freed earlier without secure_delete, until VACUUM, and backups",
	open:        openSQLite,
}

func openSQLite(_ context.Context, a *address, l layout) (*store, error) {
	file, err := url.PathUnescape(a.Opaque)
	if file += a.Path; err != nil || file == "" || a.Host != "" {
		return nil, errForm
	}
	// It waits for other writers, makes no file that is not there, and overwrites what it deletes.
	db, err := stdsql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=rw&_pragma=busy_timeout(10000)&_pragma=secure_delete(1)")
	if err != nil {
		return nil, err
	}
	s, err := openTable(db, sql.SQLite, a, l, "", "")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		s.close()
		return nil, fmt.Errorf("%w: there is no file %s", errUsage, file) // SQLite only says that it is "unable to open"
	}
	s.ids = func(context.Context) ([]string, error) {
		path, err := filepath.EvalSymlinks(file)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		return []string{path}, err
	}
	return s, nil
}
