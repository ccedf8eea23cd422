package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartClocked returns the test's own server, and a function that sets its clock. It sets the
// clock ahead of the system's, or behind it. Keys expire by that clock when the server next
// accesses them. It needs apt-get install faketime.
func StartClocked(t testing.TB) (s *Server, set func(ahead time.Duration)) {
	t.Helper()
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libraries) == 0 {
		t.Fatal("redistest: apt-get install faketime")
	}
	file := filepath.Join(t.TempDir(), "ahead")
	set = func(ahead time.Duration) {
		err := os.WriteFile(file+".new", fmt.Appendf(nil, "%+.3f\n", ahead.Seconds()), 0o600)
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			t.Error(err)
		}
	}
	set(0)
	s, err := runIn(t.Context(), []string{
		// jemalloc asks for the time while faketime first allocates, so the C library allocates.
		"LD_PRELOAD=" + libraries[0] + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, set
}
