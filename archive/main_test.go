package archive_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noon is noon of the day on which most records of the tests die.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(t time.Time) driver.Instant { return driver.Floor(t) }

// dead returns record i, which died i milliseconds after noon, days later.
func dead(i, days int) archive.Record {
	died := noon.AddDate(0, 0, days).Add(time.Duration(i) * time.Millisecond)
	return archive.Record{
		Key:       fmt.Sprintf("key-%06d", i),
		CreatedAt: at(died.AddDate(0, 0, -30)),
		ExpiredAt: at(died),
		Reason:    archive.Idle,
		Format:    "json",
		Value:     fmt.Appendf(nil, `{"n":%d}`, i),
	}
}

// lot is a batch of a source.
type lot struct {
	Source  string
	Records []archive.Record
}

// left is what a second pass of Forget found, and -1 if there was none.
func left(r *archive.Report) int64 {
	if n, again := r.Counts["left"]; again {
		return n
	}
	return -1
}

func hand(ctx context.Context, w *archive.Writer, l lot) error {
	return w.Write(ctx, l.Source, l.Records)
}

// batch returns the records from first to last, last excluded.
func batch(first, last, days int) lot {
	b := lot{Source: "links"}
	for i := first; i < last; i++ {
		b.Records = append(b.Records, dead(i, days))
	}
	return b
}

// directory opens an archive in a directory.
func directory(t *testing.T) (archive.Bucket, string) {
	t.Helper()
	path := t.TempDir()
	d, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
}

// writer returns a Writer to b whose time is a week after noon.
func writer(t testing.TB, b archive.Bucket) *archive.Writer {
	t.Helper()
	w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, w *archive.Writer, batches ...lot) {
	t.Helper()
	for _, b := range batches {
		if err := w.Write(t.Context(), b.Source, b.Records); err != nil {
			t.Fatal(err)
		}
	}
}

// all returns all records that a Reader finds in b. It fails on an error.
func all(t *testing.T, b archive.Bucket) []archive.Archived {
	t.Helper()
	var found []archive.Archived
	for a, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, a)
	}
	return found
}

// files returns the names of b's files.
func files(t *testing.T, b archive.Bucket) (names []string) {
	t.Helper()
	for i, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, i.Name)
	}
	return names
}
