package archive_test

import (
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestWriteAndRead(t *testing.T) {
	b, _ := directory(t)
	write(t, writer(t, b), batch(0, 1000, 0), batch(500, 600, 1))
	found := all(t, b)
	if len(found) != 1100 {
		t.Fatalf("%d records; want 1,100", len(found))
	}
	want := archive.Archived{Record: dead(7, 0), Source: "links", ArchivedAt: at(noon.AddDate(0, 0, 7))}
	want.Generation = strconv.FormatInt(int64(want.CreatedAt), 10)
	if got := found[7]; !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

// The same batch again, at another time: it would be another file.
func TestWriteTwice(t *testing.T) {
	b := newFake()
	now := noon
	at := func() *archive.Writer {
		w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { now = now.Add(time.Hour); return now }})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := at()
	write(t, w, batch(0, 100, 0), batch(0, 100, 0))
	write(t, at(), batch(0, 100, 0))
	if names := files(t, b); len(names) != 1 {
		t.Errorf("the batch is in %q", names)
	}
}

// Records that differ only in their source or generation are different lives, and their batches
// are different batches.
func TestIdentity(t *testing.T) {
	b := newFake()
	w := writer(t, b)
	for _, id := range []struct{ key, source, generation string }{
		{"k1", "links", "1"}, {"k1", "links", "2"}, {"k1", "sessions", "1"}, {"k", "1links", "1"}, {"k1l", "inks", "1"},
	} {
		r := dead(0, 0)
		r.Key, r.Generation = id.key, id.generation
		write(t, w, lot{Source: id.source, Records: []archive.Record{r, r}})
	}
	for _, when := range []string{"before", "after"} {
		if got := lives(t, b); len(got) != 5 {
			t.Errorf("%s compaction there are %q; want 5 lives", when, got)
		}
		compact(t, b)
	}
}

// A life without created_at is no other's that began when it ended.
func TestUnknownBirth(t *testing.T) {
	b := newFake()
	foreign, successor := dead(0, 0), dead(0, 0)
	foreign.CreatedAt = 0
	successor.CreatedAt, successor.ExpiredAt = foreign.ExpiredAt, foreign.ExpiredAt+1
	write(t, writer(t, b), lot{Source: "links", Records: []archive.Record{foreign, successor}})
	compact(t, b)
	if got := lives(t, b); len(got) != 2 {
		t.Errorf("there are %q; want both lives", got)
	}
}

// A batch of which nothing was written, or nothing is known, is not reported as written.
func TestWriteFails(t *testing.T) {
	for _, after := range []bool{false, true} {
		b := newFake()
		w := writer(t, crash(b, 0, after))
		archiver := &archive.Archiver{Writer: w, Source: "links"}
		for what, err := range map[string]error{
			"Write":          hand(t.Context(), w, batch(0, 3, 0)),
			"Bury":           archiver.Archive(t.Context(), []driver.Dead{{Key: "k", At: at(noon)}}),
			"SaveCheckpoint": w.SaveCheckpoint(t.Context(), "sweeper", []byte("1")),
		} {
			if !errors.Is(err, errCrash) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func TestGrave(t *testing.T) {
	b := newFake()
	archiver := &archive.Archiver{Writer: writer(t, b), Source: "links"}
	ok(t, archiver.Archive(t.Context(), []driver.Dead{
		{Key: "a", Raw: driver.Raw{Meta: driver.Meta{Life: driver.Life{CreatedAt: 1, ExpiresAt: at(noon.AddDate(0, 0, 1))}}}, At: at(noon), Deleted: true},
		{Key: "b", At: at(noon)},
	}))
	found := all(t, b)
	if len(found) != 2 || found[0].Reason != archive.Deleted || found[0].ExpiredAt != at(noon) || found[1].Reason != archive.Unknown {
		t.Errorf("%+v", found)
	}
}

func TestCutOtherwise(t *testing.T) {
	b, _ := directory(t)
	write(t, writer(t, b), batch(0, 100, 0), batch(50, 200, 0))
	if found := all(t, b); len(found) != 200 {
		t.Errorf("%d records; want 200", len(found))
	}
}

func TestCheckpoint(t *testing.T) {
	b, _ := directory(t)
	w := writer(t, b)
	if got, err := w.Checkpoint(t.Context(), "sweeper"); got != nil || err != nil {
		t.Errorf("before it was saved: %q, %v", got, err)
	}
	for _, want := range []string{"first", "second, and longer", ""} {
		if err := w.SaveCheckpoint(t.Context(), "sweeper", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Checkpoint(t.Context(), "sweeper"); string(got) != want || err != nil {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
}

// The reason of a death is the store's, whenever it is archived.
func TestReasonAgrees(t *testing.T) {
	p := slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day}
	for _, late := range []int{60, 61, 100} {
		var dead []driver.Dead
		var want []archive.Reason
		for lived := 1; lived <= 60; lived++ {
			l := driver.Life{CreatedAt: at(noon), ExpiresAt: at(noon.AddDate(0, 0, lived))}
			dead = append(dead, driver.Dead{Key: "k" + strconv.Itoa(100+lived), Raw: driver.Raw{Meta: driver.Meta{Life: l}}, At: l.ExpiresAt})
			want = append(want, map[bool]archive.Reason{true: archive.Age, false: archive.Idle}[l.ExpiresAt >= p.Cap(l.CreatedAt)])
		}
		b := newFake()
		w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, late) }})
		ok(t, err)
		g := archive.Archiver{Writer: w, Source: "links", Policy: func(string) slidingttl.Policy { return p }}
		ok(t, g.Archive(t.Context(), dead))
		for i, a := range all(t, b) {
			if a.Reason != want[i] {
				t.Errorf("lived %d days, archived on day %d: %s; want %s", i+1, late, a.Reason, want[i])
			}
		}
	}
}
