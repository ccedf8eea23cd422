package archive_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A record that dies tomorrow: nothing of its batch is written today; tomorrow it is.
func TestClockOfSource(t *testing.T) {
	b, _ := directory(t)
	now := noon
	w, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	cut := batch(0, 10, 0)
	cut.Records = append(cut.Records, dead(3, 1))
	if err := w.Write(t.Context(), cut.Source, cut.Records); !errors.Is(err, archive.ErrClock) || len(files(t, b)) != 0 {
		t.Errorf("%v, and files %q", err, files(t, b))
	}
	now = now.AddDate(0, 0, 2)
	write(t, w, cut)
	if found := all(t, b); len(found) != 11 {
		t.Errorf("%d records", len(found))
	}
	// The clocks may be MaxSkew apart, a minute by default, and no more.
	apart := dead(4, 3)
	for _, ms := range []driver.Instant{0, 1} {
		apart.ExpiredAt = at(now.Add(time.Minute)) + ms
		if err := w.Write(t.Context(), "links", []archive.Record{apart}); errors.Is(err, archive.ErrClock) != (ms > 0) {
			t.Errorf("a death a minute and %d ms ahead: %v", ms, err)
		}
	}
}

func TestInvalid(t *testing.T) {
	b, _ := directory(t)
	cut := batch(0, 3, 0)
	cut.Source = ""
	if err := writer(t, b).Write(t.Context(), cut.Source, cut.Records); !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "key-0") {
		t.Errorf("no source: %v", err)
	}
	if names := files(t, b); len(names) > 0 {
		t.Errorf("there are %q", names)
	}
}

// A file that is cut short, or changed in any part, is named in the error. All others are read,
// compacted and verified.
func TestCorrupt(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"half":   func(c []byte) []byte { return c[:len(c)/2] },
		"empty":  func([]byte) []byte { return []byte{} },
		"page":   func(c []byte) []byte { c[200] ^= 0xff; return c },
		"footer": func(c []byte) []byte { c[len(c)-40] ^= 0xff; return c },
		// Only the checksum shows it.
		"creator": func(c []byte) []byte { return bytes.Replace(c, []byte("slidingttl"), []byte("slidingttI"), 1) },
	} {
		b := untidy(t)
		victim := ""
		for file := range b.files {
			if strings.HasPrefix(file, "day=2026-11-22/") && strings.Contains(file, "-10-") {
				victim = file
			}
		}
		b.files[victim] = harm(slices.Clone(b.files[victim]))
		r := archive.NewReader(b)
		report, err := r.Verify(t.Context(), nil)
		var corrupt *archive.CorruptError
		if !errors.As(err, &corrupt) || corrupt.File != victim || !slices.Equal(report.Lists["corrupt"], []string{corrupt.Error()}) {
			t.Errorf("%s: verify: %+v, %v", name, report, err)
		}
		if _, err := archive.Compact(t.Context(), b, nil); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: compact: %v", name, err)
		}
		if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(55, 0).Key}}, nil); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: forget: %v", name, err)
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
		if _, ok := b.files[victim]; !ok {
			t.Errorf("%s: the corrupt file is gone", name)
		}
	}
}

// A manifest file is changed, or names a missing file, or a file has fewer rows than its name
// says. Each read or change of the day returns the error, each time, and leaves its files.
func TestCorruptDay(t *testing.T) {
	const manifest = "day=2026-11-22/_manifest-000001.json"
	merged := func(b *fakeBucket) string {
		for name := range b.files {
			if strings.HasPrefix(name, "day=2026-11-22/merged-") {
				return name
			}
		}
		t.Fatal("there is no merged file")
		return ""
	}
	late := newFake() // of a writer that began before
	write(t, writer(t, late), batch(60, 70, 0))
	for name, harm := range map[string]func(*fakeBucket){
		"half a manifest": func(b *fakeBucket) { b.files[manifest] = b.files[manifest][:20] },
		"of the future": func(b *fakeBucket) {
			b.files[manifest] = bytes.Replace(b.files[manifest], []byte(`"version":2`), []byte(`"version":3`), 1)
		},
		"the file is gone": func(b *fakeBucket) { delete(b.files, merged(b)) },
		"of another length": func(b *fakeBucket) {
			was := merged(b)
			is := strings.Replace(was, "-60-", "-61-", 1)
			b.files[is] = b.files[was]
			b.files[manifest] = bytes.Replace(b.files[manifest], []byte("-60-"), []byte("-61-"), 1)
			delete(b.files, was)
		},
	} {
		b := untidy(t)
		compact(t, b)
		harm(b)
		for file, content := range late.files {
			b.files[file] = content
		}
		before := len(b.files)
		for range 2 {
			r := archive.NewReader(b)
			_, compacting := archive.Compact(t.Context(), b, nil)
			_, forgetting := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{"nobody"}}, nil)
			_, verifying := r.Verify(t.Context(), nil)
			if s, err := r.Stats(t.Context(), archive.Span{}); s.Span.To != archive.DayOf(at(noon.AddDate(0, 0, 2))) {
				t.Errorf("%s: of the other days there are %+v, %v", name, s, err)
			}
			for what, err := range map[string]error{"compact": compacting, "verify": verifying, "forget": forgetting} {
				if !errors.Is(err, archive.ErrCorrupt) && (what != "forget" || name != "of another length") {
					t.Errorf("%s: %s: %v", name, what, err)
				}
			}
		}
		if len(b.files) < before {
			t.Errorf("%s: files are gone: %q", name, files(t, b))
		}
	}
}

// failsOnce fails the first listing.
type failsOnce struct {
	*fakeBucket
	failed bool
}

func (f *failsOnce) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	if f.failed {
		return f.fakeBucket.List(ctx, prefix)
	}
	f.failed = true
	return func(yield func(archive.Info, error) bool) { yield(archive.Info{}, errCrash) }
}

// A listing that fails is no empty one.
func TestListFails(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 3, 0))
	for what, read := range map[string]func(*archive.Reader) error{
		"stats":     func(r *archive.Reader) error { _, err := r.Stats(t.Context(), archive.Span{}); return err },
		"manifests": func(r *archive.Reader) error { _, err := r.Names(t.Context(), archive.Span{}); return err },
		"find":      func(r *archive.Reader) error { _, err := r.Find(t.Context(), "a", archive.Span{}); return err },
		"all": func(r *archive.Reader) (first error) {
			for _, err := range r.All(t.Context(), archive.Span{}) {
				first = cmp.Or(first, err)
			}
			return first
		},
	} {
		if err := read(archive.NewReader(&failsOnce{fakeBucket: b})); !errors.Is(err, errCrash) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// refusing is a bucket that removes no data file.
type refusing struct{ *fakeBucket }

var errRefused = errors.New("refused")

func (r refusing) Remove(ctx context.Context, name string) error {
	if strings.HasSuffix(name, ".parquet") {
		return errRefused
	}
	return r.fakeBucket.Remove(ctx, name)
}

// What cannot be removed is an error: a file that was to be forgotten is there.
func TestRemoveRefused(t *testing.T) {
	for what, do := range map[string]func(archive.Bucket) error{
		"compact": func(b archive.Bucket) error { _, err := archive.Compact(t.Context(), b, nil); return err },
		"forget": func(b archive.Bucket) error {
			_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(55, 0).Key}}, nil)
			return err
		},
	} {
		if err := do(refusing{untidy(t)}); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
