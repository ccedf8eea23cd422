package upkeep_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// slow is a store of n dead records in one segment that is listed fast, and read slowly.
type slow struct {
	n    int
	died driver.Instant
}

func (f slow) meta() driver.Meta {
	return driver.Meta{Life: driver.Life{CreatedAt: f.died.Add(-31 * day), ExpiresAt: f.died}, Version: 1}
}

func (f slow) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"0"}, nil
}

func (f slow) Scan(_ context.Context, from driver.Cursor, _ int) (p driver.Page, err error) {
	i, _ := strconv.Atoi(string(from))
	for end := i + 5; i < end; i++ {
		p.Records = append(p.Records, driver.Scanned{Key: strconv.Itoa(i), Meta: f.meta()})
	}
	if i < f.n {
		p.Next = driver.Cursor(strconv.Itoa(i))
	}
	return p, nil
}

func (f slow) Raw(ctx context.Context, _ string) (driver.Raw, error) {
	return driver.Raw{Meta: f.meta(), Format: "json", Value: []byte(`"v"`)}, driver.Sleep(ctx, 1600*time.Millisecond)
}

// A harvest that a timer ends comes to its end in some runs, also where reading takes far longer than
// listing, and hands few records over again.
func TestHarvestEndedAtSlowReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slow{1000, driver.Floor(time.Now()).Add(-day)} // read in 100 s, 16 at once
		var at *upkeep.Checkpoint
		buried := map[string]int{}
		for run := 1; at == nil || !at.Done(); run++ {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := upkeep.Harvest(ctx, store, policy, &upkeep.HarvestOptions{
				Batch: 10, Options: upkeep.Options{
					Resume: at,
					Save:   func(c upkeep.Checkpoint) error { at = &c; return nil },
				},
				Bury: func(_ context.Context, dead []driver.Dead) error {
					for _, d := range dead {
						buried[d.Key]++
					}
					return nil
				},
			})
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) || run > 20 {
				t.Fatalf("run %d: %v; %d are handed over", run, err, len(buried))
			}
		}
		twice := 0
		for _, n := range buried {
			twice += n - 1
		}
		if len(buried) != store.n || twice > store.n {
			t.Errorf("%d are handed over, and %d again; want %d", len(buried), twice, store.n)
		}
	})
}
