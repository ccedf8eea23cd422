package archive_test

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
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

func TestWriteTwice(t *testing.T) {
	b, _ := directory(t)
	w := writer(t, b)
	write(t, w, batch(0, 100, 0), batch(0, 100, 0))
	write(t, writer(t, b), batch(0, 100, 0))
	if names := files(t, b); len(names) != 1 {
		t.Errorf("the batch is in %q", names)
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
