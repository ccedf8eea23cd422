package cosmos

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// touchedMany inserts count records, touches each, and returns them.
func (f *fixture[T]) touchedMany(t *testing.T, count int) (keys []string, all map[string]driver.Meta) {
	t.Helper()
	all = make(map[string]driver.Meta)
	for i := range count {
		key := fmt.Sprint("k", i)
		m := f.mustInsert(t, key, *new(T), lasting(time.Hour), base)
		life := lasting(2 * time.Hour)
		version, err := f.Touch(t.Context(), key, m, life, base)
		if err != nil {
			t.Fatal(err)
		}
		keys, all[key] = append(keys, key), driver.Meta{Life: life, Version: version}
	}
	return keys, all
}

// wantMany checks that d reads all of those records correctly, one by one, together and in a
// scan. between is called after a page.
func wantMany[T any](t *testing.T, d *Driver[T], keys []string, all map[string]driver.Meta, between func()) {
	t.Helper()
	cursors, err := d.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	scanned := make(map[string]int)
	for at, pages := cursors[0], 0; at != ""; pages++ {
		page, err := d.Scan(t.Context(), at, 3)
		if err != nil {
			t.Fatalf("Scan, after %d pages: %v", pages, err)
		}
		for _, r := range page.Records {
			scanned[r.Key]++
			if r.Meta.Life != all[r.Key].Life {
				t.Errorf("a scan shows %s with %+v, want %+v", r.Key, r.Meta, all[r.Key])
			}
		}
		if at = page.Next; pages == 1 {
			between()
		}
	}
	multi, err := d.GetMulti(t.Context(), keys)
	if err != nil {
		t.Fatalf("GetMulti: %v", err)
	}
	for _, key := range keys {
		if n := scanned[key]; n != 1 {
			t.Errorf("a scan shows %s %d times, want once", key, n)
		}
		if got := multi[key].Meta; got != all[key] {
			t.Errorf("by GetMulti %s is %+v, want %+v", key, got, all[key])
		}
		if e, err := d.Get(t.Context(), key); err != nil || e.Meta != all[key] {
			t.Errorf("%s is %+v, %v; want %+v", key, e.Meta, err, all[key])
		}
	}
}

// A split of the physical partitions loses neither a process's reads and writes nor its session.
// Calls wait for it.
func TestSplit(t *testing.T) {
	f := openOn[session](t, cosmostest.StartWith(t, &cosmostest.Options{Partitions: 2}), nil)
	f.account.SetLag(true)
	keys, all := f.touchedMany(t, 30)
	splits := 0
	split := func() {
		f.account.Split()
		splits++
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpQuery}, Status: http.StatusGone, SubStatus: 1007, Count: 3})
	}
	wantMany(t, f.Driver, keys, all, split)
	wantMany(t, f.Driver, keys, all, split)
	f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpQuery}, Status: http.StatusGone, SubStatus: 1007, Count: 12})
	if found, err := f.GetMulti(t.Context(), keys); err != nil || len(found) != len(keys) {
		t.Errorf("GetMulti, while a split goes on for longer than azcosmos waits: %d records, %v", len(found), err)
	}
	if left := f.account.ClearFaults(); splits != 2 || left != 0 {
		t.Fatalf("there were %d splits, and %d queries were not refused meanwhile: the test proves nothing", splits, left)
	}
	for _, op := range []cosmostest.Op{cosmostest.OpRead, cosmostest.OpPatch, cosmostest.OpReplace} {
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{op}, Status: http.StatusGone, SubStatus: 1007})
	}
	if e, err := f.Get(t.Context(), "k0"); err != nil || e.Meta != all["k0"] {
		t.Errorf("while a split goes on: %+v, %v; want %+v", e.Meta, err, all["k0"])
	}
	for _, fault := range []cosmostest.Fault{{Status: http.StatusGone, SubStatus: 1007}, {Status: statusRetryWith}} {
		fault.Ops = []cosmostest.Op{cosmostest.OpPatch}
		f.inject(t, fault)
		if e, err := f.Latest(t.Context(), "k0"); err != nil || e.Meta != all["k0"] {
			t.Errorf("Latest, once answered %d: %+v, %v; want %+v", fault.Status, e.Meta, err, all["k0"])
		}
	}
	for _, key := range keys {
		life := lasting(3 * time.Hour)
		version, err := f.Touch(t.Context(), key, all[key], life, base)
		if err != nil {
			t.Fatalf("a touch of what was read before: %v", err)
		}
		if version, err = f.Replace(t.Context(), key, session{User: "new"}, driver.Meta{Life: life, Version: version}, life, base); err != nil {
			t.Fatalf("a replacement of what was touched: %v", err)
		}
		all[key] = driver.Meta{Life: life, Version: version}
	}
	wantMany(t, f.Driver, keys, all, func() {})
}

// A process that reads in a region that is behind sees its own writes, and by Latest those of
// others, which it then sees without Latest too. Once the region has caught up, it serves reads.
func TestRegionBehind(t *testing.T) {
	f := openOn[session](t, cosmostest.StartWith(t, &cosmostest.Options{Partitions: 2, SecondRegion: true}), nil, near)
	old := f.mustInsert(t, "old", session{User: "one"}, lasting(time.Hour), base)
	f.account.SetRegionLag(true)
	keys, all := f.touchedMany(t, 10)
	wantMany(t, f.Driver, append(keys, "old"), with(all, "old", old), f.account.Split)

	version, err := f.Replace(t.Context(), "old", session{User: "two"}, old, lasting(time.Hour), base)
	if err != nil {
		t.Fatal(err)
	}
	all["old"] = driver.Meta{Life: lasting(time.Hour), Version: version}
	other := f.another(t)
	if e, err := other.Get(t.Context(), "old"); err != nil || e.Meta != old {
		t.Errorf("another process reads %+v, %v; want what the region has, %+v", e.Meta, err, old)
	}
	other = f.another(t)
	if e, err := other.Latest(t.Context(), "old"); err != nil || e.Meta != all["old"] {
		t.Errorf("by Latest another process reads %+v, %v; want %+v", e.Meta, err, all["old"])
	}
	if e, err := other.Get(t.Context(), "old"); err != nil || e.Meta != all["old"] {
		t.Errorf("after that by Get %+v, %v; want %+v", e.Meta, err, all["old"])
	}
	if _, err := f.another(t).Touch(t.Context(), "old", old, lasting(3*time.Hour), base); err == nil {
		t.Error("a touch lands on what only the region behind still has")
	} else {
		wantConflict(t, "a touch of what only the region behind still has", err, all["old"])
	}
	if err := f.Delete(t.Context(), "k1"); err != nil {
		t.Fatal(err)
	}
	_, err = f.Get(t.Context(), "k1")
	wantNotFound(t, "Get after its own delete", err)
	_, err = f.another(t).Latest(t.Context(), "k1")
	wantNotFound(t, "Latest of what only the region behind still has", err)

	f.account.SetRegionLag(false)
	counts := f.during(func() { f.mustGet(t, "old") })
	if want := (cosmostest.Counts{Read: 1, ReadRegion: 1}); counts != want {
		t.Errorf("a read from a region that has caught up costs %+v, want %+v", counts, want)
	}
}

func with[K comparable, V any](m map[K]V, key K, v V) map[K]V {
	m[key] = v
	return m
}
