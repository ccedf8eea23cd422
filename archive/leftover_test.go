package archive_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// TestDamagedLeftover: a merged file that a killed run left, and that was damaged since, does not take the place of its
// whole sources: it is made anew.
func TestDamagedLeftover(t *testing.T) {
	for _, cut := range []bool{false, true} {
		d, dir := directory(t)
		write(t, writer(t, d), batch(0, 3, 0), batch(3, 6, 0))
		if _, err := archive.Compact(t.Context(), crash(d, 0, true), nil); err == nil {
			t.Fatal("it was not killed")
		}
		names, err := filepath.Glob(filepath.Join(dir, "day=*", "_merged-*"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		b, err := os.ReadFile(names[0])
		ok(t, err)
		b[len(b)/3] ^= 1
		if cut {
			b = b[:len(b)/2]
		}
		ok(t, os.WriteFile(names[0], b, 0o600))
		compact(t, d)
		if got := readable(t, d); len(got) != 6 {
			t.Errorf("cut %v: %d of 6 lives", cut, len(got))
		}
	}
}

// TestRetainLeftover: Retain removes a merged file that a killed run left, also where no file of the day counts.
func TestRetainLeftover(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 3, 0), batch(3, 6, 0))
	if _, err := archive.Compact(t.Context(), crash(b, 0, true), nil); err == nil {
		t.Fatal("it was not killed")
	}
	for _, name := range pick(t, b, "/batch-") {
		delete(b.files, name)
	}
	_, err := archive.Retain(t.Context(), b, 1, &archive.RetainOptions{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
	ok(t, err)
	if left := pick(t, b, "merged-"); len(left) > 0 {
		t.Errorf("%q stay", left)
	}
}
