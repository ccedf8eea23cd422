package memory

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestAll(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for range d.All() {
			t.Fatal("an empty store has a record")
		}
		want := make(map[string]driver.Entry[int])
		for i := range 1000 {
			key := fmt.Sprint(i)
			m := mustInsert(t, d, key, i, lasting(d.instant(), time.Hour))
			want[key] = driver.Entry[int]{Value: i, Meta: m}
		}
		want["never expires"] = driver.Entry[int]{Meta: mustInsert(t, d, "never expires", 0, driver.Life{})}
		if got := maps.Collect(d.All()); !maps.Equal(got, want) {
			t.Errorf("%d records, want the %d inserted", len(got), len(want))
		}
		again := make(map[string]int) // what the loop writes itself, it sees no second time
		for key, e := range d.All() {
			again[key]++
			if err := d.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			mustInsert(t, d, key, e.Value, e.Life)
			mustInsert(t, d, key+" once more", e.Value, driver.Life{ExpiresAt: 1})
		}
		if len(again) != len(want) {
			t.Errorf("%d records, want %d", len(again), len(want))
		}
		for key, n := range again {
			if n != 1 {
				t.Errorf("%s was seen %d times", key, n)
			}
		}
		time.Sleep(sweepStep)
		seen := 0
		for key := range d.All() {
			if err := d.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if seen++; seen == 10 {
				break
			}
		}
		if n := d.Len(); n != len(want)-10 {
			t.Errorf("%d records after ten deletes, want %d", n, len(want)-10)
		}
		time.Sleep(time.Hour) // the sweeper comes up later within its step
		d.sweeper.batch.Lock()
		for key := range d.All() {
			if key != "never expires" {
				t.Errorf("a dead record is seen")
			}
		}
		d.sweeper.batch.Unlock()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for range d.All() {
			t.Error("a closed store has a record")
		}
	})
}

// TestAllWhileWriting: what is there throughout is seen once, and nothing twice, while
// others grow and shrink the table, overwrite, delete and insert again.
func TestAllWhileWriting(t *testing.T) {
	const stable, churned = 500, 2000
	d := open[int](t, nil)
	ctx, now := t.Context(), d.instant()
	life := lasting(now, time.Hour)
	for i := range stable {
		mustInsert(t, d, fmt.Sprint("stable", i), i, life)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for round := 0; !done.Load(); round++ {
				for i := range churned {
					_, _ = d.Insert(ctx, fmt.Sprint("churned", w, i), i, life, now)
					key := fmt.Sprint("stable", i%stable)
					if e, err := d.Get(ctx, key); err != nil {
						t.Error(err)
					} else {
						_, _ = d.Replace(ctx, key, e.Value, e.Meta, life, now)
					}
				}
				for i := range churned {
					if err := d.Delete(ctx, fmt.Sprint("churned", w, i)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 30 {
		seen := make(map[string]int)
		for key := range d.All() {
			seen[key]++
		}
		for i := range stable {
			if seen[fmt.Sprint("stable", i)] != 1 {
				t.Errorf("a record that stayed was seen %d times", seen[fmt.Sprint("stable", i)])
			}
		}
		for _, n := range seen {
			if n > 1 {
				t.Errorf("a key was seen %d times", n)
			}
		}
	}
	done.Store(true)
	wg.Wait()
}
