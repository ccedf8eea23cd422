package hot_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A key may be part of a long string, such as a request: a held record keeps none of the rest.
func TestHoldsNoMoreThanKeys(t *testing.T) {
	const records, long = 1000, 100_000
	inner, err := memory.New[int](nil)
	ok(t, "memory.New", err)
	t.Cleanup(func() { ok(t, "Close", inner.Close()) })
	d, err := hot.New[int](inner, hot.Bounds{Records: 2 * records, Bytes: 1 << 20, Staleness: time.Hour, Absence: time.Hour}, &hot.Options[int]{SizeOf: func(int) int { return 8 }})
	ok(t, "hot.New", err)
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for i := range records {
		_, err := inner.Insert(t.Context(), fmt.Sprint("key", i), 1, life, now)
		ok(t, "Insert", err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range records {
		request := fmt.Sprintf("key%d absent%d %s", i, i, strings.Repeat("x", long))
		words := strings.Fields(request)
		if _, err := d.Get(t.Context(), words[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Get(t.Context(), words[1]); err == nil {
			t.Fatal("an absent record was found")
		}
	}
	if grown := int64(heap()) - int64(before); grown > records*long/10 {
		t.Errorf("%d records take %d bytes", records, grown)
	}
	if n := d.Stats().Records; n < records {
		t.Errorf("%d records are held; want the %d, and absences", n, records)
	}
}
