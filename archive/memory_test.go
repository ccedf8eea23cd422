//go:build linux && !race

package archive_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// mostMemory is what an operation may take, in MB.
const mostMemory = 300

// heavy are operations on an archive in a directory, each with what prepares it.
var heavy = map[string]struct {
	night bool
	begin func(*testing.T, archive.Bucket)
	do    func(*testing.T, archive.Bucket)
}{
	"write 1 of 20 MB":                       {false, nil, func(t *testing.T, b archive.Bucket) { write(t, writer(t, b), bulky(0, 1, 20<<20)) }},
	"write 3 of 20 MB":                       {true, nil, func(t *testing.T, b archive.Bucket) { write(t, writer(t, b), bulky(0, 3, 20<<20)) }},
	"compact 6 files of 20 MB":               {false, files20MB(6), func(t *testing.T, b archive.Bucket) { compact(t, b) }},
	"compact 30 files of 20 MB":              {true, files20MB(30), func(t *testing.T, b archive.Bucket) { compact(t, b) }},
	"list files of values that pack well":    {false, packed(60, 0), func(t *testing.T, b archive.Bucket) { listed(t, b, 240) }},
	"compact files of values that pack well": {false, packed(60, 0), func(t *testing.T, b archive.Bucket) { compact(t, b) }},
	"list such files with short values too":  {false, packed(60, 96), func(t *testing.T, b archive.Bucket) { listed(t, b, 6000) }},
	"list 30 files of 20 MB":                 {true, files20MB(30), func(t *testing.T, b archive.Bucket) { listed(t, b, 30) }},
	"list 1000 files": {true, func(t *testing.T, b archive.Bucket) {
		for i := range 1000 {
			write(t, writer(t, b), bulky(300*i, 300*i+300, 1000))
		}
	}, func(t *testing.T, b archive.Bucket) { listed(t, b, 300_000) }},
	"compact files of long keys and columns":       {false, longKeys(12), func(t *testing.T, b archive.Bucket) { compact(t, b) }},
	"forget among long keys and columns":           {false, mergedOf(longKeys(12)), forgetTitle},
	"compact 64 files of long keys and columns":    {true, longKeys(64), func(t *testing.T, b archive.Bucket) { compact(t, b) }},
	"forget among 6,400 long keys and columns":     {true, mergedOf(longKeys(64)), forgetTitle},
	"list 64 files of long keys and columns":       {true, longKeys(64), func(t *testing.T, b archive.Bucket) { listed(t, b, 6400) }},
	"list 6,400 long keys and columns in one file": {true, mergedOf(longKeys(64)), func(t *testing.T, b archive.Bucket) { listed(t, b, 6400) }},
	"find among 6,400 long keys and columns": {true, mergedOf(longKeys(64)), func(t *testing.T, b archive.Bucket) {
		found, err := archive.NewReader(b).Find(t.Context(), longKey(1100), archive.Span{})
		ok(t, err)
		if len(found) != 1 {
			t.Errorf("%d records", len(found))
		}
	}},
	"compact values and columns of 300 KiB": {true, func(t *testing.T, b archive.Bucket) {
		body := archive.NewColumn("body", func(r *archive.Record) ([]byte, bool, error) { return r.Value, true, nil })
		w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: []archive.Column{body}})
		ok(t, err)
		for f := range 30 {
			write(t, w, bulky(60*f, 60*f+60, 300<<10))
		}
	}, func(t *testing.T, b archive.Bucket) { compact(t, b) }},
}

func forgetTitle(t *testing.T, b archive.Bucket) {
	r, err := archive.Forget(t.Context(), b, archive.Selection{Column: "title", Value: longKey(1100)}, nil)
	ok(t, err)
	if r.Records != 1 {
		t.Errorf("%v", r)
	}
}

// longKey is a key of 64 KiB, of a few that pack to half.
func longKey(i int) string {
	key := make([]byte, 32<<10)
	_, _ = mathrand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(key)
	return fmt.Sprintf("key-%06d-%x", i, key)
}

// longKeys makes n files of 100 records, each with a key and a column of 64 KiB.
func longKeys(n int) func(*testing.T, archive.Bucket) {
	return func(t *testing.T, b archive.Bucket) {
		title := archive.NewColumn("title", func(r *archive.Record) (string, bool, error) { return r.Key, true, nil })
		w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: []archive.Column{title}})
		ok(t, err)
		for f := range n {
			cut := batch(100*f, 100*f+100, 0)
			for i := range cut.Records {
				cut.Records[i].Key = longKey(100*f + i)
			}
			write(t, w, cut)
		}
	}
}

// mergedOf has begin's files merged.
func mergedOf(begin func(*testing.T, archive.Bucket)) func(*testing.T, archive.Bucket) {
	return func(t *testing.T, b archive.Bucket) {
		begin(t, b)
		compact(t, b)
	}
}

func files20MB(n int) func(*testing.T, archive.Bucket) {
	return func(t *testing.T, b archive.Bucket) {
		for i := range n {
			write(t, writer(t, b), bulky(i, i+1, 20<<20))
		}
	}
}

// packed makes n files of a few KB, each with four values of 3 MB and some short ones.
func packed(n, short int) func(*testing.T, archive.Bucket) {
	return func(t *testing.T, b archive.Bucket) {
		value := bytes.Repeat([]byte(`{"user":"ann"}`), 3<<20/14)
		for i := range n {
			cut := batch((4+short)*i, (4+short)*(i+1), 0)
			for k := range 4 {
				r := &cut.Records[k*len(cut.Records)/4]
				r.Value = append(fmt.Appendf(nil, "%d-%d", i, k), value...)
			}
			write(t, writer(t, b), cut)
		}
	}
}

// bulky is a batch of values of size bytes that cannot be compressed.
func bulky(first, last, size int) lot {
	b := batch(first, last, 0)
	for i := range b.Records {
		value := make([]byte, size)
		_, _ = rand.Read(value)
		b.Records[i].Value = value
	}
	return b
}

func listed(t *testing.T, b archive.Bucket, want int) {
	n := 0
	for _, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
		ok(t, err)
		n++
	}
	if n != want {
		t.Errorf("%d records", n)
	}
}

// No operation takes more than 300 MB, by the kernel's count, whatever the size of values and the
// number of files.
func TestPeakMemory(t *testing.T) {
	if task := os.Getenv("ARCHIVE_TASK"); task != "" {
		b, err := archive.OpenDirectory(os.Getenv("ARCHIVE_DIRECTORY"))
		ok(t, err)
		if name, is := strings.CutPrefix(task, "begin "); is {
			heavy[name].begin(t, b)
		} else {
			heavy[task].do(t, b)
			status, err := os.ReadFile("/proc/self/status")
			ok(t, err)
			_, peak, _ := bytes.Cut(status, []byte("VmHWM:"))
			fmt.Printf("peak %s kB\n", bytes.Fields(peak)[0])
		}
		return
	}
	for name, op := range heavy {
		if op.night && !atNight {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			child := func(task string) string {
				c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPeakMemory$")
				c.Env = append(os.Environ(), "ARCHIVE_TASK="+task, "ARCHIVE_DIRECTORY="+path)
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			if op.begin != nil {
				child("begin " + name)
			}
			_, peak, _ := strings.Cut(child(name), "peak ")
			peak, _, _ = strings.Cut(peak, " kB")
			kB, err := strconv.Atoi(peak)
			ok(t, err)
			t.Logf("%d MB", kB>>10)
			if kB>>10 > mostMemory {
				t.Errorf("it took %d MB; want at most %d", kB>>10, mostMemory)
			}
		})
	}
}

// Compact reads each small file about once, and several at once.
func TestCompactTrips(t *testing.T) {
	const n, trip = 200, 10 * time.Millisecond
	b := newFake()
	w := writer(t, b)
	for i := range n {
		write(t, w, batch(10*i, 10*i+11, 0))
	}
	var reads, now, most atomic.Int64
	b.reading = func() {
		reads.Add(1)
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(trip)
		now.Add(-1)
	}
	compact(t, b)
	t.Logf("%.2f reads a file, %d at once", float64(reads.Load())/n, most.Load())
	if reads.Load() > n*3/2 || most.Load() < 8 {
		t.Errorf("%d reads of %d files, %d at once; want at most 1.5 a file, and 8 at once", reads.Load(), n, most.Load())
	}
}
