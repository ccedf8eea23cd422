package memory

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Whatever was inserted, touched, deleted and has died, Dying lists what a scan finds of these instants, and
// looks at few records beside it.
func TestDying(t *testing.T) {
	for _, retain := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, rnd := t.Context(), rand.New(rand.NewPCG(1, uint64(retain)))
			d, err := New[int](&Options[int]{Retain: retain})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			for step := range 4000 {
				now := driver.Floor(d.Now())
				key, l := fmt.Sprint(rnd.IntN(1000)), driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Duration(rnd.IntN(1<<rnd.IntN(24))) * time.Millisecond)}
				e, err := d.Get(ctx, key)
				switch {
				case err != nil:
					_, _ = d.Insert(ctx, key, step, l, now) // a retained one may be there
				case rnd.IntN(10) == 0:
					err = d.Delete(ctx, key)
				default:
					_, _ = d.Touch(ctx, key, e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: max(e.ExpiresAt, l.ExpiresAt)}, now)
				}
				if errors.Is(err, ErrClosed) {
					t.Fatal(err)
				}
				if step%40 != 0 {
					continue
				}
				time.Sleep(time.Duration(rnd.IntN(20)) * time.Second)
				now = driver.Floor(d.Now())
				until := now.Add(time.Duration(rnd.IntN(1<<24)) * time.Millisecond)
				all, err := d.Segments(ctx, 1)
				if err != nil {
					t.Fatal(err)
				}
				page, err := d.Scan(ctx, all[0], 10_000)
				if err != nil {
					t.Fatal(err)
				}
				want := slices.DeleteFunc(page.Records, func(s driver.Scanned) bool { return s.ExpiresAt <= now || s.ExpiresAt > until })
				got, err := d.Dying(ctx, now, until, 10_000)
				if !slices.IsSortedFunc(got, func(a, b driver.Scanned) int { return cmp.Compare(a.ExpiresAt, b.ExpiresAt) }) {
					t.Fatalf("not in order: %+v", got)
				}
				byKey := func(a, b driver.Scanned) int { return cmp.Compare(a.Key, b.Key) }
				slices.SortFunc(want, byKey)
				few, _ := d.Dying(ctx, now, until, 3)
				if len(few) != min(3, len(got)) || len(few) > 0 && few[0].ExpiresAt != got[0].ExpiresAt {
					t.Fatalf("%d of %d: %+v", len(few), len(got), few)
				}
				slices.SortFunc(got, byKey)
				if err != nil || !slices.EqualFunc(got, want, func(a, b driver.Scanned) bool { return a.Key == b.Key && a.Meta == b.Meta }) {
					t.Fatalf("%v: %d records; a scan finds %d", err, len(got), len(want))
				}
			}
		})
	}
}

// Of many records that live on, Dying looks at none.
func TestDyingLooksAtFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New[int](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		now := driver.Floor(d.Now())
		for i := range 10_000 {
			l := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Duration(i) * time.Minute)}
			if _, err := d.Insert(t.Context(), fmt.Sprint(i), i, l, now); err != nil {
				t.Fatal(err)
			}
		}
		looked := 0
		d.wheel.upTo(now.Add(time.Hour), func(*record[int]) { looked++ })
		if looked < 60 || looked > 600 {
			t.Errorf("it looked at %d records for the 60 of an hour", looked)
		}
		if _, err := d.Dying(t.Context(), now, now.Add(time.Hour), 0); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("limit 0: %v", err)
		}
	})
}
