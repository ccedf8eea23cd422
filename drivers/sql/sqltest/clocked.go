package sqltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartClocked returns the test's own PostgreSQL or MariaDB, and a function that sets its clock.
// It sets the clock ahead of the system's, or behind it. It needs apt-get install faketime.
func StartClocked(t testing.TB, db Database) (s *Server, set func(ahead time.Duration)) {
	t.Helper()
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libraries) == 0 {
		t.Fatal("sqltest: apt-get install faketime")
	}
	// The server's user reads it.
	dir, err := os.MkdirTemp("", "sqltest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ahead")
	set = func(ahead time.Duration) {
		err := os.WriteFile(file+".new", fmt.Appendf(nil, "%+.3f\n", ahead.Seconds()), 0o644)
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			t.Error(err)
		}
	}
	set(0)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err = kinds[db].start(ctx, []string{
		"LD_PRELOAD=" + libraries[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.db = db
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, set
}
