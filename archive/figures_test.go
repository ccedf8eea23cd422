package archive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// reads counts the bytes read from a bucket.
type reads struct {
	archive.Bucket
	n atomic.Int64
}

func (r *reads) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := r.Bucket.ReadAt(ctx, name, p, off)
	r.n.Add(int64(n))
	return n, err
}

// document returns JSON of about a kilobyte, like a session or a short link: repeated names, text
// of some hundred words, and random ids.
func document(dice *rand.Rand) []byte {
	words := []string{"account", "campaign", "mobile", "desktop", "winter", "newsletter", "product", "checkout", "landing", "partner", "summer", "referral"}
	s := fmt.Sprintf(`{"id":"%016x","owner":"user-%d","url":"https://shop.example.com/%s/%s/%d","created":"2026-%02d-%02dT%02d:%02d:%02dZ","hits":%d,"agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.%d.0 Safari/537.36","tags":[`,
		dice.Uint64(), dice.IntN(100000), words[dice.IntN(12)], words[dice.IntN(12)], dice.IntN(1e6), 1+dice.IntN(12), 1+dice.IntN(28), dice.IntN(24), dice.IntN(60), dice.IntN(60), dice.IntN(5000), 90+dice.IntN(50), dice.IntN(9999))
	for len(s) < 1010 {
		s += `"` + words[dice.IntN(12)] + `",`
	}
	return []byte(s[:len(s)-1] + `]}`)
}

// BenchmarkFigureFind finds keys in 90 days with 1,000,000 records of 1 KB of JSON. It reports the
// archive's bytes as a share of the values', the bytes that a new Reader's lookup reads as a share
// of the archive's, and the time of a later lookup.
func BenchmarkFigureFind(b *testing.B) {
	const days, each = 90, 11112
	path := b.TempDir()
	d, err := archive.OpenDirectory(path)
	if err != nil {
		b.Fatal(err)
	}
	w, err := archive.NewWriter(d, nil)
	if err != nil {
		b.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	raw := int64(0)
	for day := range days {
		batch := lot{Source: "links"}
		for i := range each {
			r := dead(i, day-120)
			r.Key, r.Value = fmt.Sprintf("%s-%d", r.Key, day), document(dice)
			raw += int64(len(r.Value))
			batch.Records = append(batch.Records, r)
		}
		if err := w.Write(b.Context(), batch.Source, batch.Records); err != nil {
			b.Fatal(err)
		}
	}
	counted := &reads{Bucket: d}
	stats, err := archive.NewReader(counted).Stats(b.Context(), archive.Span{})
	if err != nil || stats.Rows != days*each {
		b.Fatal(stats, err)
	}
	find := func(r *archive.Reader, day, i int) {
		if found, err := r.Find(b.Context(), fmt.Sprintf("key-%06d-%d", i, day), archive.Span{}); err != nil || len(found) != 1 {
			b.Fatal(len(found), err)
		}
	}
	counted.n.Store(0)
	r := archive.NewReader(counted)
	find(r, 45, 5000)
	cold := counted.n.Load()
	counted.n.Store(0)
	for b.Loop() {
		find(r, dice.IntN(days), dice.IntN(each))
	}
	b.ReportMetric(float64(stats.Bytes)/float64(raw), "archive/raw")
	b.ReportMetric(float64(cold)/float64(stats.Bytes), "cold/archive")
	b.ReportMetric(float64(counted.n.Load())/float64(b.N)/float64(stats.Bytes), "warm/archive")
}

// BenchmarkWrite writes batches of 10,000 records of 1 KB of JSON, of one day, to a
// directory.
func BenchmarkWrite(b *testing.B) {
	const n = 10000
	d, err := archive.OpenDirectory(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	w := writer(b, d)
	dice := rand.New(rand.NewPCG(1, 2))
	batch := lot{Source: "links"}
	for i := range n {
		r := dead(i, 0)
		r.Key, r.Value = fmt.Sprintf("%016x", dice.Uint64()), document(dice)
		batch.Records = append(batch.Records, r)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		batch.Source = fmt.Sprint("links-", i) // otherwise the archive has it already
		if err := w.Write(b.Context(), batch.Source, batch.Records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/record")
}

// BenchmarkFigureCompactSmall compacts a day of 4,000 files of ten records each.
func BenchmarkFigureCompactSmall(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		d, err := archive.OpenDirectory(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		w := writer(b, d)
		for i := range 4000 {
			if err := hand(b.Context(), w, batch(10*i, 10*i+10, 0)); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		r, err := archive.Compact(b.Context(), d, nil)
		if err != nil || r.Files != 4000 || r.Counts["into"] != 1 {
			b.Fatalf("%+v, %v", r, err)
		}
		b.ReportMetric(float64(r.Rows)/40000, "rows-read/row")
	}
}

// BenchmarkFigureCompactLong compacts a day of a thousand values of 1 MB, in files of 30.
func BenchmarkFigureCompactLong(b *testing.B) {
	dice := rand.NewChaCha8([32]byte{})
	for b.Loop() {
		b.StopTimer()
		d, err := archive.OpenDirectory(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		w := writer(b, d)
		for i := 0; i < 1000; i += 30 {
			long := batch(i, min(i+30, 1000), 0)
			for i := range long.Records {
				long.Records[i].Value = make([]byte, 1<<20)
				_, _ = dice.Read(long.Records[i].Value)
			}
			if err := w.Write(b.Context(), long.Source, long.Records); err != nil {
				b.Fatal(err)
			}
		}
		debug.FreeOSMemory()
		b.StartTimer()
		var peak uint64
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}; ; {
				metrics.Read(m)
				peak = max(peak, m[0].Value.Uint64()+m[1].Value.Uint64())
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}()
		_, err = archive.Compact(b.Context(), d, nil)
		close(stop)
		<-done
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	}
}
