package memory

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const hotKeys = 1024

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15)
	}
	return keys
}

func filled(b *testing.B, keys []string) *Driver[[64]byte] {
	d := open[[64]byte](b, nil)
	for _, key := range keys {
		mustInsert(b, d, key, [64]byte{}, lasting(d.instant(), time.Hour))
	}
	return d
}

// parallel runs f b.N times on as many goroutines as there are cores, handing each
// call a number of the goroutine's own sequence.
func parallel(b *testing.B, f func(ctx context.Context, i int)) {
	var from atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for i := int(from.Add(1)) << 20; pb.Next(); i++ {
			f(ctx, i)
		}
	})
}

func BenchmarkGet(b *testing.B) {
	keys := benchKeys(hotKeys)
	d := filled(b, keys)
	parallel(b, func(ctx context.Context, i int) {
		if _, err := d.Get(ctx, keys[i%hotKeys]); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkHit is a Get and a reading of the coarse clock: what a store does for
// a hit that needs no touch.
func BenchmarkHit(b *testing.B) {
	keys := benchKeys(hotKeys)
	d := filled(b, keys)
	parallel(b, func(ctx context.Context, i int) {
		e, err := d.Get(ctx, keys[i%hotKeys])
		if _, latest := d.Bounds(); err != nil || !e.Alive(latest) {
			b.Error("a record is not alive")
		}
	})
}

func BenchmarkNow(b *testing.B) {
	d := open[int](b, nil)
	for b.Loop() {
		d.Now()
	}
}

func BenchmarkBounds(b *testing.B) {
	d := open[int](b, nil)
	for b.Loop() {
		d.Bounds()
	}
}

func BenchmarkTouch(b *testing.B) {
	keys := benchKeys(hotKeys)
	d := filled(b, keys)
	parallel(b, func(ctx context.Context, i int) {
		key := keys[i%hotKeys]
		e, err := d.Get(ctx, key)
		if err != nil {
			b.Error(err)
		}
		now := d.instant()
		_, err = d.Touch(ctx, key, e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt + 1}, now)
		var lost *driver.ConflictError
		if err != nil && !asConflict(err, &lost) {
			b.Error(err)
		}
	})
}

func asConflict(err error, target **driver.ConflictError) bool {
	c, ok := err.(*driver.ConflictError)
	*target = c
	return ok
}

func BenchmarkReplace(b *testing.B) {
	keys := benchKeys(hotKeys)
	d := filled(b, keys)
	now := d.instant()
	parallel(b, func(ctx context.Context, i int) {
		key := keys[i%hotKeys]
		e, err := d.Get(ctx, key)
		if err != nil {
			b.Error(err)
		}
		_, err = d.Replace(ctx, key, e.Value, e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt + 1}, now)
		var lost *driver.ConflictError
		if err != nil && !asConflict(err, &lost) {
			b.Error(err)
		}
	})
}

// BenchmarkInsert inserts keys that are new into a store that grows.
func BenchmarkInsert(b *testing.B) {
	keys := benchKeys(b.N)
	var next atomic.Int64
	d := open[[64]byte](b, nil)
	now := d.instant()
	parallel(b, func(ctx context.Context, _ int) {
		i := next.Add(1) - 1
		if _, err := d.Insert(ctx, keys[i], [64]byte{}, lasting(now, 30*24*time.Hour+time.Duration(i)*time.Millisecond), now); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkChurn inserts and deletes, with expiries 30 days away: nothing may pile up.
func BenchmarkChurn(b *testing.B) {
	keys := benchKeys(hotKeys)
	d := open[[64]byte](b, nil)
	now := d.instant()
	parallel(b, func(ctx context.Context, i int) {
		key := keys[i%hotKeys]
		if _, err := d.Insert(ctx, key, [64]byte{}, lasting(now, 30*24*time.Hour), now); err != nil {
			if err := d.Delete(ctx, key); err != nil {
				b.Error(err)
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const million = 1_000_000

// benchKey returns a new copy of the key each time, so that only the driver keeps one.
func benchKey(i int) string { return fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15) }

func fillMillion[T any](b *testing.B, d *Driver[T], value func(i int) T, life driver.Life) {
	now := d.instant()
	for i := range million {
		if _, err := d.Insert(b.Context(), benchKey(i), value(i), life, now); err != nil {
			b.Fatal(err)
		}
	}
}

func bytesAKey[T any](b *testing.B, value func(i int) T) {
	var sum float64
	for b.Loop() {
		empty := heap()
		d, err := New[T](nil)
		if err != nil {
			b.Fatal(err)
		}
		fillMillion(b, d, value, lasting(d.instant(), 30*24*time.Hour))
		sum += float64(heap()-empty) / million
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(sum/float64(b.N), "bytes/key")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory reports what a key costs on the heap, the key's own 16 bytes and
// the value's 64 included.
func BenchmarkMemory(b *testing.B) {
	b.Run("array", func(b *testing.B) { bytesAKey(b, func(i int) [64]byte { return [64]byte{byte(i)} }) })
	b.Run("string", func(b *testing.B) {
		bytesAKey(b, func(i int) string { return fmt.Sprintf("%064x", i) })
	})
	b.Run("pointer", func(b *testing.B) { bytesAKey(b, func(i int) *[64]byte { return &[64]byte{byte(i)} }) })
}

// BenchmarkMassExpiry has a million records die at one instant, while a reader whose
// reads of live keys fall due every 20 µs measures how long after that they are done.
// It reports the reads made until the last record was gone, and as many made just
// before, when nothing happened: what those show is the machine's own unrest.
func BenchmarkMassExpiry(b *testing.B) {
	const (
		every = 20 * time.Microsecond
		span  = 2 * time.Second // before and after
		reads = int(span / every)
	)
	keys := make([]string, hotKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("live-%d", i)
	}
	for b.Loop() {
		empty := heap()
		d, err := New[[64]byte](nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = d.Close() }) // also where it fails
		start := d.instant()
		dies := start.Add(15 * time.Second)
		fillMillion(b, d, func(int) [64]byte { return [64]byte{} }, driver.Life{CreatedAt: start, ExpiresAt: dies})
		full := heap() - empty
		for _, key := range keys {
			mustInsert(b, d, key, [64]byte{}, lasting(start, time.Hour))
		}

		ctx := b.Context()
		took := make([]time.Duration, 0, 2*reads)
		goneAt := 0
		due := dies.Time().Add(-span)
		time.Sleep(due.Sub(d.Now()))
		for range 2 * reads {
			for d.Now().Before(due) {
			}
			if _, err := d.Get(ctx, keys[len(took)%hotKeys]); err != nil {
				b.Fatal(err)
			}
			took = append(took, d.Now().Sub(due))
			if goneAt == 0 && len(took) > reads && len(took)%16 == 0 && d.Len() == hotKeys {
				goneAt = len(took)
			}
			due = due.Add(every)
		}
		left := heap() - empty
		if goneAt == 0 {
			b.Fatalf("%d records are left after %v", d.Len()-hotKeys, span)
		}
		n := goneAt - reads
		report := func(when string, took []time.Duration) {
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns-p50-"+when)
			b.ReportMetric(took[len(took)*999/1000].Seconds()*1e6, "µs-p99.9-"+when)
			b.ReportMetric(took[len(took)-1].Seconds()*1e6, "µs-max-"+when)
		}
		report("meanwhile", took[reads:goneAt])
		report("before", took[reads-n:reads])
		b.ReportMetric((time.Duration(n)*every).Seconds()*1e3, "ms-to-gone")
		b.ReportMetric(100*float64(left)/float64(full), "%-of-full-heap")
		b.ReportMetric(0, "ns/op")
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
