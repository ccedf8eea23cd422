package slidingttl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// The Observer is told of each key of a batch that failed, as of each Get.
func TestFailedReadsOfABatchAreTold(t *testing.T) {
	one := &driver.InvalidError{Field: "value", Value: "?", Rule: "must decode"}
	for name, failure := range map[string]error{"one": driver.KeyErrors{{Index: 0, Err: one}}, "all": errDown} {
		bubble(t, func(t *testing.T) {
			store := fakestore.New[int](time.Millisecond)
			store.Has = []any{(*driver.BatchGetter[int])(nil)}
			store.Handle = func(c *fakestore.Call[int]) {
				if store.Do(c); c.Op == fakestore.GetMulti {
					if c.Err = failure; name == "all" {
						clear(c.Entries)
					}
					delete(c.Entries, "a")
				}
			}
			told := make(map[slidingttl.ReadOutcome]int)
			s := open(t, store, session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{
				Read: func(_ context.Context, e slidingttl.ReadEvent) {
					told[e.Outcome]++
					if e.Outcome == slidingttl.ReadFailed && !errors.Is(e.Err, driver.ErrInvalid) && !errors.Is(e.Err, errDown) {
						t.Errorf("%s: the Observer is told %v", name, e.Err)
					}
				}}})
			must(t, s.Insert(t.Context(), "a", 1))
			must(t, s.Insert(t.Context(), "b", 1))
			if _, err := s.GetMulti(t.Context(), []string{"a", "b"}); err == nil {
				t.Errorf("%s: GetMulti returns no error", name)
			}
			want := map[string]int{"one": 1, "all": 2}[name]
			must(t, s.Close(t.Context()))
			if told[slidingttl.ReadFailed] != want || told[slidingttl.ReadHit] != 2-want {
				t.Errorf("%s: the Observer is told %v", name, told)
			}
		})
	}
}
