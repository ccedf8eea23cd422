package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A record of tomorrow: nothing of its batch is written, and it is taken tomorrow.
func TestClockOfSource(t *testing.T) {
	b, _ := directory(t)
	now := noon
	w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	cut := batch(0, 10, 0)
	cut.Records = append(cut.Records, dead(3, 1))
	var clock *archive.ClockError
	if err := w.Write(t.Context(), cut); !errors.As(err, &clock) || len(files(t, b)) != 0 {
		t.Errorf("%v, and files %q", err, files(t, b))
	}
	now = now.AddDate(0, 0, 2)
	write(t, w, cut)
	if found := all(t, b); len(found) != 11 {
		t.Errorf("%d records", len(found))
	}
}

func TestInvalid(t *testing.T) {
	b, _ := directory(t)
	w := writer(t, b)
	for name, change := range map[string]func(*archive.Batch){
		"no source": func(b *archive.Batch) { b.Source = "" },
		"no key":    func(b *archive.Batch) { b.Records[1].Key = "" },
		"no death":  func(b *archive.Batch) { b.Records[1].ExpiredAt = 0 },
		"no reason": func(b *archive.Batch) { b.Records[1].Reason = "boredom" },
		"no text":   func(b *archive.Batch) { b.Records[1].Generation = "\xff" },
	} {
		cut := batch(0, 3, 0)
		change(&cut)
		if err := w.Write(t.Context(), cut); !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "key-0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names := files(t, b); len(names) > 0 {
		t.Errorf("there are %q", names)
	}
}

// A file that is cut short, or changed in any of its parts: it is named, and all others are
// read, compacted and verified.
func TestCorrupt(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"half":   func(c []byte) []byte { return c[:len(c)/2] },
		"empty":  func([]byte) []byte { return nil },
		"page":   func(c []byte) []byte { c[200] ^= 0xff; return c },
		"footer": func(c []byte) []byte { c[len(c)-40] ^= 0xff; return c },
	} {
		b, path := untidy(t)
		victims, err := filepath.Glob(filepath.Join(path, "day=2026-11-22", "*-10-*.parquet"))
		if err != nil || len(victims) != 1 {
			t.Fatal(victims, err)
		}
		content, err := os.ReadFile(victims[0])
		if err == nil {
			err = os.WriteFile(victims[0], harm(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := archive.NewReader(b)
		_, err = r.Verify(t.Context(), nil)
		var corrupt *archive.CorruptError
		if !errors.As(err, &corrupt) || filepath.Base(corrupt.File) != filepath.Base(victims[0]) {
			t.Errorf("%s: verify: %v", name, err)
		}
		if _, err := archive.Compact(t.Context(), b, nil); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: compact: %v", name, err)
		}
		if found, err := r.Find(t.Context(), dead(25, 0).Key, archive.Span{}); len(found) != 1 || err != nil && !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: found %d, %v", name, len(found), err)
		}
		n := 0
		for _, err := range r.All(t.Context(), archive.Span{}) {
			if err == nil {
				n++
			} else if !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n < 73 {
			t.Errorf("%s: %d records of 73", name, n)
		}
		if _, err := os.Stat(victims[0]); err != nil {
			t.Errorf("%s: the corrupt file is gone: %v", name, err)
		}
	}
}
