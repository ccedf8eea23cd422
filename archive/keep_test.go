package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// lives returns the identities of all records that a Reader returns, in its order.
func lives(t *testing.T, b archive.Bucket) (ids []string) {
	t.Helper()
	for _, a := range all(t, b) {
		ids = append(ids, fmt.Sprintf("%s %s %s %s", archive.DayOf(a.ExpiredAt), a.Key, a.Source, a.Generation))
	}
	return ids
}

// lifeOf is the identity in lives of record i of the first day.
func lifeOf(i int) string {
	r := dead(i, 0)
	return fmt.Sprintf("%s %s links %d", archive.DayOf(r.ExpiredAt), r.Key, r.CreatedAt)
}

// untidy returns an archive whose files have lives in common.
func untidy(t *testing.T) *fakeBucket {
	t.Helper()
	once := untidyOnce()
	if once == nil {
		t.Fatal("it cannot be written")
	}
	return once.clone()
}

var untidyOnce = sync.OnceValue(func() *fakeBucket {
	b := newFake()
	w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
	for _, cut := range []lot{batch(0, 30, 0), batch(20, 50, 0), batch(50, 60, 0), batch(0, 10, 1), batch(5, 20, 1), batch(0, 3, 2)} {
		if err == nil {
			err = w.Write(context.Background(), cut.Source, cut.Records)
		}
	}
	if err != nil {
		return nil
	}
	return b
})

func TestCompact(t *testing.T) {
	b := untidy(t)
	want := lives(t, b)
	first := archive.DayOf(at(noon))
	var told [][3]int
	r, err := archive.Compact(t.Context(), b, &archive.Walk{Progress: func(next archive.Day, done, days int) { told = append(told, [3]int{int(next - first), done, days}) }})
	if err != nil {
		t.Fatal(err)
	}
	if want := [][3]int{{0, 0, 3}, {1, 1, 3}, {2, 2, 3}}; !slices.Equal(told, want) {
		t.Errorf("told of %+v; want %+v", told, want)
	}
	if text, err := json.Marshal(r); string(text) != `{"days":3,"merged":2,"files":5,"into":2,"rows":95,"dropped":15}` {
		t.Errorf("%s, %v", text, err)
	}
	if got := lives(t, b); !slices.Equal(got, want) || len(got) != 83 {
		t.Errorf("%d lives after; %d before", len(got), len(want))
	}
	if names := files(t, b); len(names) != 5 { // two merged files with their manifests, and a batch
		t.Errorf("there are %q", names)
	}
	write(t, writer(t, b), batch(0, 30, 0), batch(0, 10, 1))
	if names := files(t, b); len(names) != 5 {
		t.Errorf("batches that were merged are written again: %q", names)
	}
	if r, err := archive.Compact(t.Context(), b, nil); err != nil || r.Counts["merged"] != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// So many files that they cannot all be merged at once: the first merged files have lives in
// common.
func TestCompactMany(t *testing.T) {
	archive.Narrow(t, 1<<20)
	b := newFake()
	w := writer(t, b)
	for from := range 2 { // into none, and into the file that the first round left
		for i := range 128 {
			write(t, w, batch(10*i+from, 10*i+from+15, 0))
		}
		r, err := archive.Compact(t.Context(), b, nil)
		if err != nil || r.Counts["merged"] != 1 || r.Counts["into"] < 2 { // by passes that need no more than that room
			t.Fatalf("%+v, %v", r, err)
		}
		want := 1285 + from
		if got := lives(t, b); len(got) != want {
			t.Errorf("%d lives; want %d", len(got), want)
		}
		s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
		if err != nil || s.Files != 1 || s.Rows != int64(want) || s.Counts["garbage"] != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// What is named much like the archive's files is none of them.
func TestOtherFiles(t *testing.T) {
	b := untidy(t)
	compact(t, b)
	want := lives(t, b)
	other := []string{"day=2026-11-22/_manifest-000009", "day=2026-11-22/manifest.json", "day=2026-11-22/_manifest-9x.json", "day=2026-11-22/notes"}
	for _, name := range other {
		b.files[name] = []byte("{}")
	}
	compact(t, b)
	if got := lives(t, b); !slices.Equal(got, want) {
		t.Errorf("%d lives; want %d", len(got), len(want))
	}
	for _, name := range other {
		if _, ok := b.files[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
}

// tidied returns the names of a compacted archive's files: at most one merged file for each day.
func tidied(t *testing.T, b archive.Bucket) {
	t.Helper()
	perDay := map[string]int{}
	for _, name := range files(t, b) {
		day, base, _ := strings.Cut(name, "/")
		if strings.HasSuffix(base, ".parquet") {
			perDay[day]++
		}
	}
	for day, n := range perDay {
		if n != 1 {
			t.Errorf("%s has %d files", day, n)
		}
	}
}

// After a crash at any call, before or after its effect, readers see the same, and the next run
// finishes the work.
func TestCompactCrashes(t *testing.T) {
	for _, after := range []bool{false, true} {
		for calls := 0; ; calls++ {
			b := untidy(t)
			want := lives(t, b)
			r, err := archive.Compact(t.Context(), crash(b, calls, after), nil)
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			manifests, days := 0, map[string]bool{}
			for name := range b.files {
				if day, _, is := strings.Cut(name, "/_manifest-"); is {
					manifests++
					days[day] = true
				}
			}
			for name := range b.files { // other engines read files by their names
				if day, _, is := strings.Cut(name, "/merged-"); is && !days[day] {
					t.Errorf("after %d calls there is %s, which no manifest names", calls, name)
				}
			}
			if !after && r.Counts["merged"] != int64(manifests) {
				t.Errorf("after %d calls it says that it merged %d days; want %d", calls, r.Counts["merged"], manifests)
			}
			if got := lives(t, b); !slices.Equal(got, want) {
				t.Fatalf("after %d calls there are %d lives; want %d", calls, len(got), len(want))
			}
			if _, err := archive.Compact(t.Context(), b, nil); err != nil {
				t.Fatal(err)
			}
			if got := lives(t, b); !slices.Equal(got, want) {
				t.Fatalf("after %d calls and another run there are %d lives; want %d", calls, len(got), len(want))
			}
			tidied(t, b)
			if err == nil {
				break
			}
		}
	}
}

// holders returns the files of b, hidden ones too, that contain key in their bytes or in their unpacked
// pages.
func holders(t *testing.T, b archive.Bucket, key string) (names []string) {
	t.Helper()
	lists := []iter.Seq2[archive.Info, error]{b.List(t.Context(), "")}
	if v, ok := b.(archive.Versioned); ok {
		lists = append(lists, v.Hidden(t.Context(), ""))
	}
	for _, list := range lists {
		for i, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			content := make([]byte, i.Size)
			if n, err := b.ReadAt(t.Context(), i.Name, content, 0); n < len(content) {
				t.Fatal(err)
			}
			if holds(t, i.Name, content, key) {
				names = append(names, i.Name)
			}
		}
	}
	return names
}

// holds reports whether a file contains key.
func holds(t *testing.T, name string, content []byte, key string) bool {
	t.Helper()
	if strings.Contains(name, key) || bytes.Contains(content, []byte(key)) {
		return true
	}
	f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil && strings.HasSuffix(name, ".parquet") {
		t.Fatal(err)
	}
	if err != nil {
		return false
	}
	for _, g := range f.RowGroups() {
		if slices.ContainsFunc(g.ColumnChunks(), func(c parquet.ColumnChunk) bool { return inPages(t, c, key) }) {
			return true
		}
	}
	return false
}

func inPages(t *testing.T, c parquet.ColumnChunk, key string) (holds bool) {
	t.Helper()
	pages := c.Pages()
	defer pages.Close()
	for {
		p, err := pages.ReadPage()
		if err != nil {
			return holds
		}
		values := make([]parquet.Value, p.NumValues())
		n, _ := p.Values().ReadValues(values)
		for _, v := range values[:n] {
			holds = holds || !v.IsNull() && v.Kind() == parquet.ByteArray && bytes.Contains(v.ByteArray(), []byte(key))
		}
		parquet.Release(p)
	}
}

// The first key of a file, one in its middle, and the last: a footer names the first and the
// last.
func TestForget(t *testing.T) {
	for _, n := range []int{0, 7, 25, 29, 59} {
		for _, compacted := range []bool{false, true} {
			b := untidy(t)
			key := dead(n, 0).Key
			if compacted {
				if _, err := archive.Compact(t.Context(), b, nil); err != nil {
					t.Fatal(err)
				}
			}
			if len(holders(t, b, key)) == 0 {
				t.Fatal("the key is found nowhere before it was forgotten")
			}
			want := slices.DeleteFunc(lives(t, b), func(id string) bool { return strings.Contains(id, key) })
			if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil); err != nil {
				t.Fatal(err)
			}
			if names := holders(t, b, key); len(names) > 0 {
				t.Errorf("%s is still in %q", key, names)
			}
			if got := lives(t, b); !slices.Equal(got, want) {
				t.Errorf("%d lives; want %d", len(got), len(want))
			}
			if found, err := archive.NewReader(b).Find(t.Context(), key, archive.Span{}); len(found) > 0 || err != nil {
				t.Errorf("found %v, %v", found, err)
			}
			compact(t, b)
			if s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); s.Rows != int64(len(want)) || err != nil {
				t.Errorf("compacted after it: %+v, %v; want %d rows", s, err, len(want))
			}
		}
	}
}

func TestForgetCrashes(t *testing.T) {
	key := dead(7, 0).Key
	for _, after := range []bool{false, true} {
		for calls := 0; ; calls++ {
			b := untidy(t)
			want := lives(t, b)
			// The files that a killed compaction has left.
			_, _ = archive.Compact(t.Context(), crash(b, calls%5, after), nil)
			_, err := archive.Forget(t.Context(), crash(b, calls, after), archive.Selection{Keys: []string{key}}, nil)
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			got := lives(t, b)
			for _, id := range want {
				if !strings.Contains(id, key) && !slices.Contains(got, id) {
					t.Fatalf("after %d calls another life is lost", calls)
				}
			}
			if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil); err != nil {
				t.Fatal(err)
			}
			if names := holders(t, b, key); len(names) > 0 {
				t.Fatalf("after %d calls and another run it is in %q", calls, names)
			}
			if err == nil {
				break
			}
		}
	}
}

// A killed writer leaves the file that it was writing, with the key.
func TestForgetUnfinished(t *testing.T) {
	b, path := directory(t)
	left := filepath.Join(path, "day=2026-11-22", ".writing-17")
	ok(t, os.Mkdir(filepath.Dir(left), 0o700))
	if err := os.WriteFile(left, []byte("PAR1"+dead(7, 0).Key), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(7, 0).Key}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

// Retain never takes a number of days that is too long for fewer.
func TestRetainForEver(t *testing.T) {
	b := untidy(t)
	all := len(lives(t, b))
	o := &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }}
	since1970 := int(archive.DayOf(at(o.Now())))
	for _, days := range []int{since1970 - 2, since1970 - 1, since1970, since1970 + 1, 36525} {
		if r, err := archive.Retain(t.Context(), b, days, o); err != nil || r.Days != 0 {
			t.Errorf("%d: %+v, %v", days, r, err)
		}
	}
	for _, days := range []int{36526, math.MaxInt32, math.MaxUint32, 1 << 32, math.MaxInt64} {
		if _, err := archive.Retain(t.Context(), b, days, o); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%d: %v", days, err)
		}
	}
	if n := len(lives(t, b)); n != all {
		t.Errorf("%d of %d lives are left", n, all)
	}
}

func TestRetain(t *testing.T) {
	now := func() time.Time { return noon.AddDate(0, 0, 3) }
	for _, after := range []bool{false, true} {
		for calls := 0; ; calls++ {
			b := untidy(t)
			if _, err := archive.Compact(t.Context(), b, &archive.Walk{Span: archive.Span{To: archive.DayOf(at(noon))}}); err != nil {
				t.Fatal(err)
			}
			want := lives(t, b)[60:]
			r, err := archive.Retain(t.Context(), b, 2, &archive.Walk{Now: now})
			if err != nil || r.Applied || r.Days != 1 || r.Rows != 60 || len(lives(t, b)) != 83 {
				t.Fatalf("a dry run: %+v, %v", r, err)
			}
			for _, days := range []int{2, 1} {
				r, err := archive.Retain(t.Context(), b, days, &archive.Walk{Now: now})
				ok(t, err)
				if was, err := archive.NewReader(b).Stats(t.Context(), archive.Span{To: r.Span.To}); err != nil || r.Files != was.Files || r.Bytes != was.Bytes || r.Rows != was.Rows {
					t.Fatalf("a dry run: %+v, %v; want the files, rows and bytes of %+v", r, err, was)
				}
			}
			o := &archive.Walk{Now: now, Apply: true}
			if _, err = archive.Retain(t.Context(), crash(b, calls, after), 2, o); err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if got := lives(t, b); !slices.Equal(got, want) && len(got) != 83 {
				t.Fatalf("after %d calls there are %d lives", calls, len(got))
			}
			if _, err := archive.Retain(t.Context(), b, 2, o); err != nil {
				t.Fatal(err)
			}
			if got := lives(t, b); !slices.Equal(got, want) {
				t.Fatalf("after %d calls and another run there are %d lives; want %d", calls, len(got), len(want))
			}
			left := slices.DeleteFunc(files(t, b), func(name string) bool { return !strings.HasPrefix(name, "day=2026-11-22/") })
			if !slices.Equal(left, []string{"day=2026-11-22/_manifest-000002.json"}) {
				t.Errorf("of the day there are still %q", left)
			}
			if s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || s.Days != 2 || s.Span.From != r.Span.To+1 {
				t.Errorf("there are %+v, %v; want two days from %v", s, err, r.Span.To+1)
			}
			if days, err := archive.NewReader(b).Names(t.Context(), archive.Span{}); err != nil || len(days) != 2 || days[r.Span.To+1] == nil {
				t.Errorf("there are %+v, %v; want two days from %v", days, err, r.Span.To+1)
			}
			if err == nil {
				break
			}
		}
	}
}

// full is a bucket that takes no file.
type full struct{ archive.Bucket }

func (full) Create(context.Context, string, func(io.Writer) (string, error)) error { return errCrash }

// What was not removed is not counted.
func TestRetainFull(t *testing.T) {
	r, err := archive.Retain(t.Context(), full{untidy(t)}, 2, &archive.Walk{Now: func() time.Time { return noon.AddDate(0, 0, 3) }, Apply: true})
	if !errors.Is(err, errCrash) || r.Rows != 0 || r.Days != 0 || r.Files != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRetainClock(t *testing.T) {
	b := untidy(t)
	ahead := func() time.Time { return noon.AddDate(10, 0, 0) }
	_, err := archive.Retain(t.Context(), b, 30, &archive.Walk{Now: ahead, Apply: true})
	if !errors.Is(err, archive.ErrClock) || len(lives(t, b)) != 83 {
		t.Errorf("%v, and %d lives", err, len(lives(t, b)))
	}
	if r, err := archive.Retain(t.Context(), b, 30, &archive.Walk{Now: ahead, Apply: true, Quiet: true}); err != nil || r.Days != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Writers, compactions, erasures and readers at once: a read has each record that was written
// before it began once, and forgotten records are in no file.
func TestAtOnce(t *testing.T) {
	b, _ := directory(t)
	const writers, batches, size = 3, 12, 20
	var working sync.WaitGroup
	var mu sync.Mutex // guards written
	written := map[string]bool{}
	for n := range writers {
		w := writer(t, b)
		working.Go(func() {
			for i := range batches {
				cut := batch((n*batches+i)*size, (n*batches+i+1)*size+5, 0) // the next begins five before
				if err := w.Write(t.Context(), cut.Source, cut.Records); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, r := range cut.Records {
					written[r.Key] = true
				}
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	var beside sync.WaitGroup
	repeat := func(what string, op func() error) {
		beside.Go(func() {
			for {
				if err := op(); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 2 {
		repeat("compact", func() error { _, err := archive.Compact(t.Context(), b, nil); return err })
	}
	repeat("forget", func() error {
		_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{"nobody"}}, nil)
		return err
	})
	r := archive.NewReader(b)
	repeat("read", func() error {
		mu.Lock()
		var before []string
		for key := range written {
			before = append(before, key)
		}
		mu.Unlock()
		seen := map[string]int{}
		for a, err := range r.All(t.Context(), archive.Span{}) {
			if err != nil {
				return err
			}
			seen[a.Key]++
		}
		for _, key := range before {
			if seen[key] == 0 {
				return errors.New("a record is lost")
			}
		}
		for _, n := range seen {
			if n > 1 {
				return errors.New("a record is returned twice")
			}
		}
		return nil
	})
	working.Wait()
	close(done)
	beside.Wait()
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	if got := lives(t, b); len(got) != writers*batches*size+5 {
		t.Errorf("%d lives", len(got))
	}
	key := dead(100, 0).Key
	if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil); err != nil || len(holders(t, b, key)) > 0 {
		t.Errorf("%v, in %q", err, holders(t, b, key))
	}
	tidied(t, b)
}

// A batch that is damaged has no other file written again, by whatever number of Compacts.
func TestCompactBesideDamaged(t *testing.T) {
	archive.Shorten(t, 2, 1) // several merged files
	b := newFake()
	w := writer(t, b)
	for i := range 20 {
		write(t, w, batch(i*2, i*2+2, 0))
	}
	compact(t, b)
	write(t, w, batch(90, 92, 0))
	for name, content := range b.files {
		if strings.Contains(name, "/batch-") {
			b.files[name] = content[:len(content)/2]
		}
	}
	before := files(t, b)
	r, err := archive.Compact(t.Context(), b, nil)
	if !errors.Is(err, archive.ErrCorrupt) || r.Files != 0 || r.Counts["merged"] != 0 || !slices.Equal(files(t, b), before) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Where each file is locked from its creation on, one Compact gives all merged files their own names, and says nothing
// of the locks. A Rename is a copy there that cannot remove the former name.
func TestCompactUnderLocks(t *testing.T) {
	archive.Shorten(t, 2, 1) // several merged files
	b := newFake()
	for i := range 6 {
		write(t, writer(t, b), batch(i*2, i*2+2, 0))
	}
	if _, err := archive.Compact(t.Context(), &keepsAll{b}, nil); err != nil {
		t.Error(err)
	}
	if _, err := archive.NewReader(b).View(t.Context(), "duckdb", "/a", "", archive.Span{}); err != nil {
		t.Error(err)
	}
}

// keepsAll is a bucket in which each file is locked from its creation on.
type keepsAll struct{ *fakeBucket }

func (*keepsAll) Remove(_ context.Context, name string) error {
	return &archive.LockedError{Files: 1, File: name}
}

func (k *keepsAll) Rename(ctx context.Context, from, to string) error {
	_ = k.set(to, k.clone().files[from], false)
	return k.Remove(ctx, from)
}

// A life that a source writes again while Compact runs is in one file after it, though the day's files are full.
func TestCompactWhileWritten(t *testing.T) {
	archive.Shorten(t, 2, 1) // several merged files
	b := newFake()
	write(t, writer(t, b), batch(0, 3, 0), batch(3, 5, 0))
	b.did = func(name string) {
		if strings.Contains(name, "_manifest-") {
			b.did = nil
			write(t, writer(t, b), batch(4, 6, 0), batch(5, 7, 0))
		}
	}
	compact(t, b)
	if stats, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || stats.Rows != 7 {
		t.Errorf("7 lives are in %+v, %v", stats, err)
	}
}
