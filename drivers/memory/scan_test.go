package memory

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var (
	_ driver.Scanner   = (*Driver[int])(nil)
	_ driver.RawReader = (*Driver[int])(nil)
	_ driver.Dying     = (*Driver[int])(nil)
)

// passing is how many records come and go during a scan, twelve for each that stays, so
// that the table shrinks too.
var passing = 6000

// A record that stays is met exactly once, however often the table grows and shrinks
// between two pages and beneath one.
func TestScanGrows(t *testing.T) {
	d, err := New[int](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx := t.Context()
	now := driver.Floor(d.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	insert := func(key string) {
		if _, err := d.Insert(ctx, key, 1, life, now); err != nil {
			t.Error(err)
		}
	}
	stay := passing / 12
	for i := range stay {
		insert(fmt.Sprint("stay-", i))
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for {
			for i := range passing {
				insert(fmt.Sprint("pass-", i))
			}
			for i := range passing {
				if err := d.Delete(ctx, fmt.Sprint("pass-", i)); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for round := range 10 {
		cursors, err := d.Segments(ctx, 1+round%3)
		if err != nil {
			t.Fatal(err)
		}
		met := make(map[string]int)
		for _, at := range cursors {
			for at != "" {
				page, err := d.Scan(ctx, at, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Records {
					met[r.Key]++
				}
				at = page.Next
			}
		}
		for i := range stay {
			if n := met[fmt.Sprint("stay-", i)]; n != 1 {
				t.Fatalf("round %d: a record was met %d times", round, n)
			}
		}
	}
	close(stop)
	writers.Wait()
}

func TestScanClosed(t *testing.T) {
	d, err := New[int](nil)
	if err != nil {
		t.Fatal(err)
	}
	cursors, err := d.Segments(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Segments(t.Context(), 1); err != ErrClosed {
		t.Errorf("Segments after Close: %v", err)
	}
	if _, err := d.Scan(t.Context(), cursors[0], 1); err != ErrClosed {
		t.Errorf("Scan after Close: %v", err)
	}
}

func TestRawOfWhatIsNoJSON(t *testing.T) {
	d, err := New[func()](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Insert(t.Context(), "a", func() {}, driver.Life{}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Raw(t.Context(), "a"); err == nil {
		t.Error("Raw of a function has no error")
	}
}
