package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/slidingttl/slidingttl/drivers/sql"
)

var sqliteKind = kind{
	schemes:     []string{"sqlite"},
	form:        "sqlite:path/to/file.db?table=T[&retain=D]",
	params:      parameters{"table": text, "retain": span},
	credentials: "protect the file instead: SQLite knows no passwords",
	keeps:       "backups",
	open:        openSQLite,
}

func openSQLite(_ context.Context, a *address, l layout) (*store, error) {
	file := a.Opaque + a.Path
	if file == "" || a.Host != "" {
		return nil, errForm
	}
	// It waits for other writers, makes no file that is not there, and overwrites what it deletes.
	db, err := stdsql.Open("sqlite", "file:"+file+"?mode=rw&_pragma=busy_timeout(10000)&_pragma=secure_delete(1)")
	if err != nil {
		return nil, err
	}
	s, err := openTable(db, sql.SQLite, a, l, "")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		s.close()
		return nil, fmt.Errorf("%w: there is no file %s", errUsage, file) // SQLite only says that it is "unable to open"
	}
	s.scrub = func(ctx context.Context, erased [][]byte) []string { return scrub(ctx, db, file, erased) }
	return s, nil
}

// scrub empties the write-ahead log of db, and rewrites its file if free space in there holds what
// was erased: other connections freed it, or moved it within its page, without overwriting it.
func scrub(ctx context.Context, db *stdsql.DB, file string, erased [][]byte) []string {
	for vacuum := true; ; vacuum = false {
		var busy, pages, moved int
		err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
		if err != nil || busy != 0 {
			return []string{fmt.Sprintf("the write-ahead log until a checkpoint, which another connection prevents (%v)", err)}
		}
		many := len(erased) > 64 // a search for each takes longer than VACUUM
		held := many && vacuum
		for _, name := range []string{file, file + "-journal"} {
			if many {
				break
			}
			found, err := fileHas(name, erased)
			if err != nil {
				return []string{"free space of the file until VACUUM: " + err.Error()}
			}
			held = held || found
		}
		switch {
		case !held:
			return []string{"values that other connections freed earlier without secure_delete, until VACUUM"}
		case !vacuum:
			return []string{"other records, or a journal, that mention these keys"}
		}
		if _, err := db.ExecContext(ctx, "VACUUM"); err != nil {
			return []string{"free space of the file until VACUUM: " + err.Error()}
		}
	}
}

// fileHas reports whether the file at path has any of texts in it.
func fileHas(path string, texts [][]byte) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	defer func() { _ = f.Close() }()
	longest := 0
	for _, text := range texts {
		longest = max(longest, len(text))
	}
	buf, kept := make([]byte, longest+1<<20), 0
	for {
		n, err := io.ReadFull(f, buf[kept:])
		for _, text := range texts {
			if bytes.Contains(buf[:kept+n], text) {
				return true, nil
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return false, err
		}
		kept = copy(buf, buf[kept+n-longest:])
	}
}
