package archive_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// large returns a bucket with two batches of a day, whose files are read in many parts.
func large(t *testing.T) *fakeBucket {
	t.Helper()
	b := newFake()
	dice := rand.New(rand.NewPCG(1, 2))
	for _, cut := range []lot{batch(0, 150, 0), batch(140, 300, 0)} {
		for i := range cut.Records {
			value := make([]byte, 300)
			for k := range value {
				value[k] = byte(dice.Uint32())
			}
			cut.Records[i].Value = value
		}
		write(t, writer(t, b), cut)
	}
	return b
}

// A day is compacted at any step of a reader of the whole day, and of one of a key. Each life is
// found once.
func TestReadBesideCompaction(t *testing.T) {
	archive.Shorten(t, 40, 1<<30)
	base := large(t)
	want := lives(t, base)
	for at, reached := int64(1), true; reached; at += 9 {
		reached = false
		for _, find := range []bool{false, true} {
			b := base.clone()
			var step atomic.Int64 // Find reads several files at once
			b.step = func() {
				if step.Add(1) == at {
					if _, err := archive.Compact(t.Context(), b, nil); err != nil {
						t.Error(err)
					}
				}
			}
			if find {
				if found, err := archive.NewReader(b).Find(t.Context(), dead(145, 0).Key, archive.Span{}); err != nil || len(found) != 1 {
					t.Fatalf("compacted at step %d, it finds %d, %v", at, len(found), err)
				}
			} else if got := lives(t, b); !slices.Equal(got, want) {
				t.Fatalf("compacted at step %d, %d lives were found; want %d", at, len(got), len(want))
			}
			reached = reached || step.Load() >= at
		}
	}
}

// Merging gives several files of several row groups: each life is in one of them, and they are not
// merged again.
func TestCompactLong(t *testing.T) {
	b := large(t)
	want := lives(t, b)
	archive.Shorten(t, 40, 20<<10)
	compact(t, b)
	s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
	if err != nil || s.Files < 3 || s.Rows != 300 {
		t.Errorf("%+v, %v", s, err)
	}
	if r, err := archive.Compact(t.Context(), b, nil); err != nil || r.Counts["merged"] != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	if got := lives(t, b); !slices.Equal(got, want) {
		t.Errorf("%d lives; want %d", len(got), len(want))
	}
	r := archive.NewReader(b)
	for i := range 300 {
		if found, err := r.Find(t.Context(), dead(i, 0).Key, archive.Span{}); err != nil || len(found) != 1 {
			t.Fatalf("found %d of %s, %v", len(found), dead(i, 0).Key, err)
		}
	}
	write(t, writer(t, b), batch(295, 310, 0))
	compact(t, b)
	if s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || s.Rows != 310 || s.Counts["garbage"] != 0 {
		t.Errorf("with another batch: %+v, %v", s, err)
	}
}

// A row group that cannot hold a key, by its bounds or its filter, is not read: a key that lies
// before all costs the same, however many row groups there are.
func TestFindReads(t *testing.T) {
	var before []int
	for _, rows := range []int{40, 1000} {
		b := large(t)
		archive.Shorten(t, rows, 1<<30)
		compact(t, b)
		reads := 0
		b.step = func() { reads++ }
		count := func(key string) int {
			reads = 0
			_, err := archive.NewReader(b).Find(t.Context(), key, archive.Span{})
			ok(t, err)
			return reads
		}
		if absent, present := count("key-000007-not"), count("key-000007"); absent >= present {
			t.Errorf("a key that is not there costs %d reads, and one that is %d", absent, present)
		}
		before = append(before, count("a"))
	}
	if before[0] != before[1] {
		t.Errorf("a key before all costs %d reads", before)
	}
}

// Columns of one name and two types: each file keeps its own.
func TestCompactTypes(t *testing.T) {
	b := newFake()
	for i, c := range []archive.Column{
		constant("n", int64(7)),
		constant("n", "seven"),
		constant("n", "eight"),
	} {
		w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: []archive.Column{c}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, w, batch(i, i+1, -300))
	}
	for range 2 {
		var got []any
		for _, a := range all(t, b) {
			got = append(got, a.Columns["n"])
		}
		if fmt.Sprint(got) != "[7 seven eight]" {
			t.Errorf("the columns are %v", got)
		}
		compact(t, b)
	}
	if n := len(files(t, b)); n < 3 {
		t.Errorf("%q", files(t, b))
	}
}

// constant is a column that has v for every record.
func constant[T string | int64 | float64 | bool | driver.Instant | []byte](name string, v T) archive.Column {
	return archive.NewColumn(name, func(*archive.Record) (T, bool, error) { return v, true, nil })
}

// A column of each type is read, found, merged, verified and forgotten as it was written.
func TestColumns(t *testing.T) {
	want := map[string]any{"Text": "seven", "Integer": int64(7), "Number": 7.5, "Boolean": true, "Time": at(noon), "Bytes": []byte{7}}
	columns := []archive.Column{
		constant("Text", "seven"), constant("Integer", int64(7)), constant("Number", 7.5),
		constant("Boolean", true), constant("Time", at(noon)), constant("Bytes", []byte{7}),
	}
	for _, columns := range append(slices.Collect(slices.Chunk(columns, 1)), columns) {
		b := newFake()
		w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: columns, Now: func() time.Time { return noon.AddDate(0, 0, 1) }})
		ok(t, err)
		write(t, w, batch(0, 2, 0), batch(2, 4, 0))
		for lives := 4; lives > 2; lives-- { // as written; merged, with one forgotten
			r := archive.NewReader(b)
			found, err := r.Find(t.Context(), "key-000003", archive.Span{})
			ok(t, err)
			found = append(found, all(t, b)...)
			if len(found) != lives+1 {
				t.Errorf("%d records; want %d", len(found), lives+1)
			}
			for _, a := range found {
				for name, v := range a.Columns {
					if !reflect.DeepEqual(v, want[name]) || len(a.Columns) != len(columns) {
						t.Errorf("%v", a.Columns)
					}
				}
			}
			_, err = r.Verify(t.Context(), nil)
			ok(t, err)
			compact(t, b)
			report, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{fmt.Sprintf("key-%06d", 4-lives)}}, nil)
			ok(t, err)
			if report.Records != 1 {
				t.Errorf("forgotten: %+v", report)
			}
		}
	}
}

// Many small files are merged in one pass, with one manifest and few listings, and each row is
// read once.
func TestCompactManySmall(t *testing.T) {
	b := newFake()
	const many = 200
	for i := range many {
		write(t, writer(t, b), batch(2*i, 2*i+3, 0)) // one of each is in the next
	}
	var listed, manifests int
	b.did = func(name string) {
		if strings.Contains(name, "_manifest-") {
			manifests++
		}
	}
	counted := &listings{fakeBucket: b, lists: &listed}
	r, err := archive.Compact(t.Context(), counted, nil)
	ok(t, err)
	if r.Files != many || r.Counts["into"] != 1 || r.Rows != 3*many || r.Counts["dropped"] != many-1 || manifests != 1 || listed > 10 {
		t.Errorf("%+v, %d manifests, %d listings", r, manifests, listed)
	}
	if n := len(all(t, b)); n != 2*many+1 {
		t.Errorf("%d records", n)
	}
}

// Files too long to be read as a whole are merged in order, however their keys lie between each
// other's.
func TestCompactInterleaved(t *testing.T) {
	b := newFake()
	const files, each = 7, 600
	for f := range files {
		cut := lot{Source: "links"}
		for i := range each {
			cut.Records = append(cut.Records, dead(i*files+(i+f)%files, 0))
		}
		again := dead(9, 0) // in each file, and the longest in the fourth
		again.ExpiredAt += driver.Instant((f * 3) % files)
		cut.Records = append(cut.Records, again)
		write(t, writer(t, b), cut)
	}
	r, err := archive.Compact(t.Context(), b, nil)
	ok(t, err)
	found := all(t, b)
	if r.Files != files || r.Counts["into"] != 1 || len(found) != files*each {
		t.Errorf("%+v, and %d records", r, len(found))
	}
	for i, a := range found {
		if a.Key != dead(i, 0).Key {
			t.Fatalf("the record at %d is %s", i, a.Key)
		}
	}
	if longest := dead(9, 0).ExpiredAt + files - 1; found[9].ExpiredAt != longest {
		t.Errorf("of a life in all files the version that died at %v is kept; want %v", found[9].ExpiredAt, longest)
	}
}

// listings counts those of a bucket.
type listings struct {
	*fakeBucket
	lists *int
}

func (l *listings) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	*l.lists++
	return l.fakeBucket.List(ctx, prefix)
}
