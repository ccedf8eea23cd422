package archive_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
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
	_, err := archive.Retain(t.Context(), b, 1, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
	ok(t, err)
	if left := pick(t, b, "merged-"); len(left) > 0 {
		t.Errorf("%q stay", left)
	}
}

// TestLockedLeftover: a damaged file that a killed run left, and that may not be removed yet, stops neither Compact nor
// Repair.
func TestLockedLeftover(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 6, 0))
	harm := func(b *fakeBucket, part string) string {
		name := pick(t, b, part)[0]
		b.files[name] = slices.Clone(b.files[name])
		b.files[name][len(b.files[name])/3] ^= 1
		return name
	}
	repair := func(b archive.Bucket) error {
		_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		return err
	}
	merged := base.clone()
	compact(t, merged)
	maps.Copy(merged.files, base.files) // left by a kill
	harm(merged, "/merged-")
	for name, r := range map[string]struct {
		from *fakeBucket
		run  func(archive.Bucket) error
	}{
		"compact": {base, func(b archive.Bucket) error { _, err := archive.Compact(t.Context(), b, nil); return err }},
		"repair":  {merged, repair},
	} {
		b := r.from.clone()
		if err := r.run(crash(b, 0, true)); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		l := &locking{b, map[string]time.Time{harm(b, "/_merged-"): noon}}
		if err := r.run(l); err != nil && !errors.Is(err, archive.ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
		if got := readable(t, b); len(got) != 6 || len(pick(t, b, "/merged-"))+len(pick(t, b, "/_merged-")) < 2 {
			t.Errorf("%s: %d of 6 lives, in %q", name, len(got), files(t, b))
		}
	}
}

// crowded is a bucket that notes whether Removable is called several times at once.
type crowded struct {
	*locking
	now    atomic.Int32
	atOnce atomic.Bool
}

func (c *crowded) Removable(ctx context.Context, name string) error {
	c.now.Add(1)
	defer c.now.Add(-1)
	for range 100_000 {
		if c.now.Load() > 1 {
			c.atOnce.Store(true)
		}
		if c.atOnce.Load() {
			break
		}
		runtime.Gosched()
	}
	return c.locking.Removable(ctx, name)
}

// TestLockedAtOnce: Compact asks at once for the locks of the files that it could not remove.
func TestLockedAtOnce(t *testing.T) {
	b := newFake()
	for i := range 20 {
		write(t, writer(t, b), batch(i, i+1, 0))
	}
	c := &crowded{locking: &locking{b, map[string]time.Time{"day=": noon}}}
	for range 2 {
		if _, err := archive.Compact(t.Context(), c, nil); err != nil && !errors.Is(err, archive.ErrLocked) {
			t.Fatal(err)
		}
	}
	if !c.atOnce.Load() {
		t.Error("it asks for one after the other")
	}
}
