package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive/s3"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// tiers are those of a bucket that is asked on 2026-11-22.
func tiers() *s3.Options {
	return &s3.Options{Tiers: "30:STANDARD_IA,180:GLACIER_IR", Now: func() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }}
}

// A file is written or renamed to the class for its day's age. Other files than records have the
// bucket's class.
func TestTiers(t *testing.T) {
	for name, want := range map[string]string{
		"day=2026-11-22/batch-a.parquet":       "",
		"day=2026-10-24/batch-a.parquet":       "",
		"day=2026-10-23/batch-a.parquet":       "STANDARD_IA",
		"day=2026-05-27/batch-a.parquet":       "STANDARD_IA",
		"day=2026-05-26/_merge-000001-1-a":     "GLACIER_IR",
		"day=2026-05-26/_manifest-000001.json": "",
		"_quarantine/batch-a.parquet":          "",
		"checkpoints/stream":                   "",
	} {
		b, got := open(t, tiers())
		if err := b.Create(t.Context(), "", func(io.Writer) (string, error) { return name, nil }); err != nil {
			t.Fatal(err)
		}
		if err := b.Rename(t.Context(), name, name); err != nil {
			t.Fatal(err)
		}
		for _, r := range *got {
			if class := r.Header.Get("X-Amz-Storage-Class"); class != want {
				t.Errorf("%s: %s with the class %q; want %q", name, r.Method, class, want)
			}
		}
		if len(*got) != 2 {
			t.Errorf("%s: %d requests", name, len(*got))
		}
	}
}

// A listing reports the files that are due for another class since they were written.
func TestTiersMove(t *testing.T) {
	b := serve(t, tiers(), func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "<ListBucketResult>")
		for _, day := range []string{"2026-11-01", "2026-10-01", "2026-01-01"} {
			for _, class := range []string{"", "STANDARD", "STANDARD_IA", "GLACIER_IR"} {
				_, _ = fmt.Fprintf(w, "<Contents><Key>day=%s/%s.parquet</Key><Size>1</Size><StorageClass>%s</StorageClass></Contents>", day, class, class)
			}
		}
		_, _ = fmt.Fprint(w, "</ListBucketResult>")
	})
	var moves []string
	for i, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if i.Moves {
			moves = append(moves, i.Name)
		}
	}
	want := []string{
		"day=2026-10-01/.parquet", "day=2026-10-01/STANDARD.parquet", "day=2026-10-01/GLACIER_IR.parquet",
		"day=2026-01-01/.parquet", "day=2026-01-01/STANDARD.parquet", "day=2026-01-01/STANDARD_IA.parquet",
	}
	if !slices.Equal(moves, want) {
		t.Errorf("%q are to move; want %q", moves, want)
	}
}

func TestTiersInvalid(t *testing.T) {
	for _, text := range []string{"30", "30:", "STANDARD_IA:30", "0:STANDARD_IA", "30:STANDARD_IA,30:GLACIER_IR", "30:GLACIER", "30:DEEP_ARCHIVE", "30:x"} {
		if _, err := s3.New(nil, "links", &s3.Options{Tiers: text}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
