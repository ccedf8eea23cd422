package archive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// personColumn is a column that one person lacks.
func personColumn[T string | int64 | float64 | bool | driver.Instant | []byte](name string, of func(n int) T) archive.Column {
	return archive.NewColumn(name, func(r *archive.Record) (T, bool, error) {
		var n int
		_, _ = fmt.Sscanf(strings.TrimPrefix(r.Key, "\xff"), "user:%d:", &n)
		return of(n), n != 9, nil
	})
}

// people is an archive with the records of people, who are identified by columns of each type, on
// three days. The last day was written before there were columns. A key has a person and a number;
// some keys are not text.
func people(t *testing.T) *fakeBucket {
	t.Helper()
	once := peopleOnce()
	if once == nil {
		t.Fatal("it cannot be written")
	}
	return once.clone()
}

var peopleOnce = sync.OnceValue(func() *fakeBucket {
	b := newFake()
	o := &archive.WriterOptions{
		Now: func() time.Time { return noon.AddDate(0, 0, 7) },
		Columns: []archive.Column{
			personColumn("user_id", func(n int) string { return fmt.Sprint("u-", n) }),
			personColumn("number", func(n int) int64 { return int64(n) }),
			personColumn("share", func(n int) float64 { return float64(n) / 4 }),
			personColumn("third", func(n int) bool { return n == 3 }),
			personColumn("since", func(n int) driver.Instant { return at(noon.AddDate(0, 0, -n)) }),
			personColumn("mark", func(n int) []byte { return []byte{0xfe, byte(n)} }),
		},
	}
	for day := range 3 {
		if day == 2 {
			o.Columns = nil
		}
		w, err := archive.NewWriter(b, o)
		for half := range 2 { // the halves have lives in common
			cut := lot{Source: "links"}
			for i := 10 * half; i < 40-10*half; i++ {
				r := dead(i, day)
				r.Key = fmt.Sprintf("user:%d:%d", i%10, i)
				if i%20 == 3 {
					r.Key = "\xff" + r.Key
				}
				cut.Records = append(cut.Records, r)
			}
			if err == nil {
				err = w.Write(context.Background(), cut.Source, cut.Records)
			}
		}
		if err != nil {
			return nil
		}
	}
	return b
})

// ofPerson selects the lives of the third person on the first days.
func ofPerson(days int, binary bool) func(a *archive.Archived) bool {
	return func(a *archive.Archived) bool {
		key, isBinary := strings.CutPrefix(a.Key, "\xff")
		return strings.HasPrefix(key, "user:3:") && (!isBinary || binary) && a.ExpiredAt < at(noon.AddDate(0, 0, days))
	}
}

// A person is forgotten by keys, by a prefix, and by a column of any type, before and after a
// compaction, and no other person is. A dry run reports the same, and changes nothing.
func TestForgetSelection(t *testing.T) {
	var keys []string
	for i := 3; i < 40; i += 10 {
		keys = append(keys, fmt.Sprintf("user:3:%d", i), fmt.Sprintf("\xffuser:3:%d", i), "nobody")
	}
	for name, c := range map[string]struct {
		what    archive.Selection
		means   func(*archive.Archived) bool
		noValue int64 // of lives without a value in the column, each counted once
	}{
		"keys":        {archive.Selection{Keys: keys}, ofPerson(3, true), 0},
		"prefix":      {archive.Selection{Prefix: "user:3:"}, ofPerson(3, false), 0},
		"not text":    {archive.Selection{Prefix: "\xffuser:3:"}, func(a *archive.Archived) bool { return a.Key[0] == 0xff }, 0},
		"text":        {archive.Selection{Column: "user_id", Value: "u-3"}, ofPerson(2, true), 48},
		"an integer":  {archive.Selection{Column: "number", Value: "3"}, ofPerson(2, true), 48},
		"a number":    {archive.Selection{Column: "share", Value: "0.75"}, ofPerson(2, true), 48},
		"a truth":     {archive.Selection{Column: "third", Value: "true"}, ofPerson(2, true), 48},
		"a time":      {archive.Selection{Column: "since", Value: "2026-11-19T13:00:00+01:00"}, ofPerson(2, true), 48},
		"bytes":       {archive.Selection{Column: "mark", Value: "\xfe\x03"}, ofPerson(2, true), 48},
		"nobody's":    {archive.Selection{Column: "number", Value: "77"}, func(*archive.Archived) bool { return false }, 48},
		"no such key": {archive.Selection{Keys: []string{"user:3:4"}}, func(*archive.Archived) bool { return false }, 0},
	} {
		for _, compacted := range []bool{true, false} {
			if !compacted && c.what.Column != "" && c.what.Column != "user_id" {
				continue
			}
			t.Run(fmt.Sprint(name, compacted), func(t *testing.T) {
				b := people(t)
				if compacted {
					compact(t, b)
				}
				var want []archive.Archived
				meant := 0
				for _, a := range all(t, b) {
					if c.means(&a) {
						meant++
					} else {
						want = append(want, a)
					}
				}
				before := files(t, b)
				dry, err := archive.Forget(t.Context(), b, c.what, &archive.ForgetOptions{DryRun: true})
				ok(t, err)
				if dry.Applied || !slices.Equal(files(t, b), before) {
					t.Error("a dry run has changed the archive")
				}
				r, err := archive.Forget(t.Context(), b, c.what, nil)
				ok(t, err)
				if r.Records != dry.Records || r.Files != dry.Files || left(r) != 0 || r.Days != 3 {
					t.Errorf("%+v, and before %+v", *r, *dry)
				}
				if compacted && (r.Records != int64(meant) || r.Counts["no_value"] != c.noValue) {
					t.Errorf("%+v; want %d forgotten, %d without a value", *r, meant, c.noValue)
				}
				got := all(t, b)
				if len(got) != len(want) {
					t.Fatalf("%d records are left; want %d", len(got), len(want))
				}
				for i := range got {
					if got[i].Key != want[i].Key || got[i].ExpiredAt != want[i].ExpiredAt || fmt.Sprint(got[i].Columns) != fmt.Sprint(want[i].Columns) {
						t.Fatalf("%+v; want %+v", got[i], want[i])
					}
				}
				if again, err := archive.Forget(t.Context(), b, c.what, nil); err != nil || again.Records+int64(again.Files) != 0 {
					t.Errorf("again: %+v, %v", again, err)
				}
			})
		}
	}
}

// An invalid selection is refused before a file is read. A column that no file has, or that has
// another type, is an error and not "nothing found".
func TestForgetRules(t *testing.T) {
	b := people(t)
	before := files(t, b)
	for field, what := range map[string]archive.Selection{
		"Selection":         {},
		"Selection ":        {Keys: []string{"a"}, Prefix: "b"},
		"Selection.Column":  {Column: "user", Value: "u-3"},
		"Selection.Column ": {Column: "number", Value: "u-3"},
	} {
		_, err := archive.Forget(t.Context(), b, what, nil)
		var invalid *driver.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) || strings.Contains(err.Error(), "u-3") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if !slices.Equal(files(t, b), before) {
		t.Error("the archive has changed")
	}
}

// locking is a bucket whose files of some days may not be removed.
type locking struct {
	*fakeBucket
	until map[string]time.Time // by the prefix of their names
}

func (l *locking) Removable(_ context.Context, name string) error {
	for prefix, until := range l.until {
		if strings.HasPrefix(name, prefix) {
			return &archive.LockedError{Files: 1, File: name, Until: until}
		}
	}
	return nil
}

func (l *locking) Remove(ctx context.Context, name string) error {
	if err := l.Removable(ctx, name); err != nil {
		return err
	}
	return l.fakeBucket.Remove(ctx, name)
}

// lateLock is a bucket whose lock has ended for who asks, and not yet for who removes.
type lateLock struct{ *locking }

func (lateLock) Removable(context.Context, string) error { return nil }

// A file with selected records whose removal only the bucket refuses is reported as locked, and the
// next Forget removes it.
func TestForgetLockedLate(t *testing.T) {
	b := people(t)
	compact(t, b)
	l := &locking{b, map[string]time.Time{"day=": time.Now().Add(time.Hour)}}
	what := archive.Selection{Prefix: "user:3:"}
	r, err := archive.Forget(t.Context(), lateLock{l}, what, nil)
	if locked, ok := errors.AsType[*archive.LockedError](err); !ok || locked.Files == 0 || r.Records == 0 || errors.Is(err, archive.ErrLeft) {
		t.Errorf("while it is locked: %+v, %v", r, err)
	}
	clear(l.until)
	if r, err = archive.Forget(t.Context(), l, what, nil); err != nil || r.Records != 0 || r.Hidden == 0 {
		t.Errorf("when it is not: %+v, %v", r, err)
	}
}

// A locked version behind a delete marker stops neither the removal of other versions nor the count of
// what stays, whether the bucket says so when it is asked or when it removes.
func TestForgetLockedVersion(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := people(t)
		for name := range b.clone().files {
			b.hide(name)
		}
		held := len(b.files)
		l := &locking{b, map[string]time.Time{"day=2026-11-22": time.Now().Add(time.Hour)}}
		var asked archive.Bucket = l
		if late {
			asked = lateLock{l}
		}
		r, err := archive.Forget(t.Context(), asked, archive.Selection{Prefix: "user:"}, nil)
		locked, ok := errors.AsType[*archive.LockedError](err)
		if !ok || locked.Files == 0 || r.Hidden == 0 || r.Locked == 0 || r.Asked[0].Locked != r.Locked || errors.Is(err, archive.ErrLeft) {
			t.Fatalf("asked late %t: %+v, %v", late, r, err)
		}
		if left := holders(t, b, "user:"); len(left) != locked.Files || len(left) == held {
			t.Errorf("asked late %t: %q are left of %d, and %d reported", late, left, held, locked.Files)
		}
		clear(l.until)
		if again, err := archive.Forget(t.Context(), l, archive.Selection{Prefix: "user:"}, nil); err != nil || again.Hidden != r.Locked || len(holders(t, b, "user:")) != 0 {
			t.Errorf("asked late %t, when it is not locked: %+v, %v", late, again, err)
		}
	}
}

// An archive without records has no columns to be missed.
func TestForgetNothing(t *testing.T) {
	if r, err := archive.Forget(t.Context(), newFake(), archive.Selection{Column: "user_id", Value: "u-3"}, nil); err != nil || r.Records != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A dry run removes nothing, not even files that do not count any more.
func TestForgetDryRunKeepsAll(t *testing.T) {
	b := people(t)
	merged := maps.Clone(b.files)
	compact(t, b)
	for name, content := range merged {
		if !strings.Contains(name, "manifest") {
			b.files[name] = content // a compaction that was killed has left it
		}
	}
	was := files(t, b)
	_, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "user:3:"}, &archive.ForgetOptions{DryRun: true})
	ok(t, err)
	if left := files(t, b); !slices.Equal(left, was) {
		t.Errorf("left are %q of %q", left, was)
	}
}

// Files that are locked stay, and the error says how many and until when the last of them is; what
// is not locked is forgotten, and when the lock is over the rest is.
func TestForgetLocked(t *testing.T) {
	b := people(t)
	compact(t, b)
	soon, late := noon.AddDate(0, 1, 0), noon.AddDate(0, 2, 0)
	l := &locking{b, map[string]time.Time{"day=2026-11-22/": late, "day=2026-11-23/": soon}}
	what := archive.Selection{Prefix: "user:3:"}
	for _, dry := range []bool{true, false} {
		r, err := archive.Forget(t.Context(), l, what, &archive.ForgetOptions{DryRun: dry})
		var locked *archive.LockedError
		if !errors.As(err, &locked) || locked.Files != 2 || !locked.Until.Equal(late) || !strings.HasPrefix(locked.File, "day=2026-11-22/") {
			t.Errorf("%v", err)
		}
		if !strings.Contains(err.Error(), "2 files are locked") || !strings.Contains(err.Error(), late.Format(time.RFC3339)) {
			t.Errorf("%v", err)
		}
		if r == nil || r.Records != 2 || r.Files != 1 {
			t.Errorf("%+v", r)
		}
	}
	if n := len(holders(t, b, "user:3:")); n != 2 {
		t.Errorf("%d files hold the keys", n)
	}
	l.until["day=2026-11-23/"] = time.Time{}
	if _, err := archive.Forget(t.Context(), l, what, nil); err == nil || !strings.Contains(err.Error(), "legal hold") {
		t.Errorf("%v", err)
	}
	clear(l.until)
	r, err := archive.Forget(t.Context(), l, what, nil)
	ok(t, err)
	if r.Records != 4 {
		t.Errorf("%+v", r)
	}
	if found := all(t, b); slices.ContainsFunc(found, func(a archive.Archived) bool { return strings.HasPrefix(a.Key, "user:3:") }) {
		t.Error("the keys are there")
	}
}

// A compaction continues if it may not remove the merged files: they no longer count, and a later
// one removes them.
func TestCompactLocked(t *testing.T) {
	b := people(t)
	want := lives(t, b)
	l := &locking{b, map[string]time.Time{"day=": noon.AddDate(1, 0, 0)}}
	for range 2 {
		_, err := archive.Compact(t.Context(), l, nil)
		ok(t, err)
	}
	s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
	ok(t, err)
	if got := lives(t, b); !slices.Equal(got, want) || s.Files != 3 || s.Counts["garbage"] != 6 {
		t.Errorf("%d lives of %d; %+v", len(got), len(want), s)
	}
	for _, dry := range []bool{true, false} { // of locked files those matter that hold what is forgotten, if they count or not
		_, err = archive.Forget(t.Context(), l, archive.Selection{Prefix: "nobody"}, &archive.ForgetOptions{DryRun: dry})
		ok(t, err)
		_, err = archive.Forget(t.Context(), l, archive.Selection{Keys: []string{"user:3:13"}}, &archive.ForgetOptions{DryRun: dry})
		if locked, is := errors.AsType[*archive.LockedError](err); !is || locked.Files != 3*3 {
			t.Errorf("dry run %t: %v; want 9 files", dry, err)
		}
		_, err = archive.Forget(t.Context(), l, archive.Selection{Keys: []string{"user:3:33"}}, &archive.ForgetOptions{DryRun: dry})
		if locked, is := errors.AsType[*archive.LockedError](err); !is || locked.Files != 3*2 {
			t.Errorf("dry run %t: %v; want 6 files", dry, err)
		}
	}
	clear(l.until)
	compact(t, l)
	names := slices.DeleteFunc(files(t, b), func(name string) bool { return !strings.HasPrefix(name, "day=") })
	if len(names) != 6 { // and their manifests
		t.Errorf("%q", names)
	}
}

// A report tells of a second pass only if there was one.
func TestForgetUnchecked(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 10, 0))
	for calls, want := range map[int]bool{0: false, 9: true} {
		r, err := archive.Forget(t.Context(), crash(base.clone(), calls, false), archive.Selection{Prefix: "key-"}, nil)
		if (err == nil) != want || (left(r) >= 0) != want || strings.Contains(r.String(), "0 found by a second pass") != want {
			t.Errorf("%d calls: %v, %v", calls, r, err)
		}
	}
}

// The second pass finds records that a source hands over while a person is forgotten.
func TestForgetLeft(t *testing.T) {
	b := people(t)
	came := false
	b.did = func(string) {
		if !came {
			came = true
			r := dead(1, -9)
			r.Key = "user:3:late"
			write(t, writer(t, b), lot{Source: "links", Records: []archive.Record{r}})
		}
	}
	r, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "user:3:"}, nil)
	if !errors.Is(err, archive.ErrLeft) || left(r) != 1 || !strings.Contains(r.String(), "1 found by a second pass") {
		t.Errorf("%+v", r)
	}
}

// With a long list a file's filter is read once, and not once for each key.
func TestForgetManyKeys(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 500, 0))
	var keys []string
	for i := range 400 {
		keys = append(keys, fmt.Sprintf("key-%06d-not", i))
	}
	reads := 0
	b.step = func() { reads++ }
	_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: keys}, &archive.ForgetOptions{DryRun: true})
	ok(t, err)
	if reads > 40 {
		t.Errorf("%d reads and listings", reads)
	}
	for prefix, want := range map[string]int64{"key-0001": 100, "key-": 500, "key-0005": 0, "a": 0} {
		r, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: prefix}, &archive.ForgetOptions{DryRun: true})
		if err != nil || r.Records != want {
			t.Errorf("%s: %+v, %v; want %d", prefix, r, err, want)
		}
	}
}

// A file of others, which engines read, may hold a person: no Forget passes over it, nor Verify.
func TestForgetForeignFile(t *testing.T) {
	for name, copied := range map[string]func(dir, base string) string{
		"in a day":            func(dir, base string) string { return dir + "/copy.parquet" },
		"a copy of a day":     func(dir, base string) string { return dir + ".bak/" + base },
		"a day without a day": func(dir, base string) string { return "day=backup/" + base },
	} {
		t.Run(name, func(t *testing.T) {
			b := people(t)
			i := slices.IndexFunc(files(t, b), func(name string) bool { return strings.HasSuffix(name, ".parquet") })
			name := files(t, b)[i]
			dir, base, _ := strings.Cut(name, "/")
			copied := copied(dir, base)
			b.files[copied] = b.files[name]
			for _, o := range []archive.ForgetOptions{{DryRun: true}, {}, {}, {DryRun: true}} {
				r, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "user:3:"}, &o)
				if !errors.Is(err, archive.ErrCorrupt) || len(r.Lists["problems"]) == 0 || !strings.Contains(fmt.Sprint(r.Lists["problems"]), copied) {
					t.Errorf("%+v, %v", r, err)
				}
			}
			if r, err := archive.NewReader(b).Verify(t.Context(), nil); !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(fmt.Sprint(r.Lists["corrupt"]), copied) {
				t.Errorf("%+v, %v", r, err)
			}
			delete(b.files, copied)
			r, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "user:3:"}, nil)
			ok(t, err)
			if r.Records != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A key that is empty would be asked for as if no key were.
func TestForgetNoEmptyKey(t *testing.T) {
	b := people(t)
	before := files(t, b)
	for _, keys := range [][]string{{""}, {"user:3:3", ""}} {
		if r, err := archive.Forget(t.Context(), b, archive.Selection{Keys: keys}, nil); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %+v, %v", keys, r, err)
		}
	}
	if !slices.Equal(files(t, b), before) {
		t.Error("the archive has changed")
	}
}
