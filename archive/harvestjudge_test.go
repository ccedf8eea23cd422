package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// moody is a store whose pages take a while, and that at times cannot read a record, or its scan, or
// refuses a cursor of before.
type moody struct {
	*memory.Driver[session]
	rnd   func(n int) int
	calm  bool // nothing fails
	moved bool // cursors of before are refused
}

func (m *moody) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	m.moved = false
	return m.Driver.Segments(ctx, n)
}

func (m *moody) Scan(ctx context.Context, c driver.Cursor, n int) (driver.Page, error) {
	if err := driver.Sleep(ctx, time.Duration(m.rnd(3000))*time.Millisecond); err != nil {
		return driver.Page{}, err
	}
	if m.moved {
		return driver.Page{}, &driver.InvalidError{Field: "cursor", Value: "of before", Rule: "must be of today"}
	}
	p, err := m.Driver.Scan(ctx, c, n)
	for i := range p.Records {
		if s := &p.Records[i]; !m.calm && m.rnd(40) == 0 {
			s.Problem = &driver.InvalidError{Field: "created_at", Rule: "must be a number"}
		} else if !m.calm && m.rnd(40) == 0 {
			s.ExpiresAt /= 1000 // as in seconds
		}
	}
	return p, err
}

func (m *moody) Raw(ctx context.Context, key string) (driver.Raw, error) {
	raw, err := m.Driver.Raw(ctx, key)
	switch {
	case m.calm || err != nil:
	case m.rnd(50) == 0:
		return raw, fmt.Errorf("%w for now", driver.ErrRefused) // not tried again: nobody may sleep while the others wait for a lock
	case m.rnd(50) == 0:
		raw.Problem = errors.New("a word")
	}
	return raw, err
}

// Harvests follow each other while records die and are retired. Each is ended at some moment, or its
// archive refuses, or it reads badly, or its policy or --since has changed. After the last
// ones, that are not, each dead record is in the archive once.
//
// It runs in a process of its own, because zstd's encoders, which outlive their users, must not leave a
// bubble of virtual time, or enter one.
func TestHarvestsInterrupted(t *testing.T) {
	if os.Getenv("ARCHIVE_HARVESTS") == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHarvestsInterrupted$", "-test.v")
		c.Env = append(os.Environ(), "ARCHIVE_HARVESTS=1")
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(100) {
			random := rand.New(rand.NewPCG(seed, 1))
			lock := make(chan struct{}, 1) // random is for one goroutine at a time
			rnd := func(n int) int {
				lock <- struct{}{}
				defer func() { <-lock }()
				return random.IntN(n)
			}
			m, err := memory.New(&memory.Options[session]{Retain: 365 * day})
			ok(t, err)
			policy := slidingttl.Policy{IdleGrace: 60 * day, MaxLifetime: 90 * day}
			s, err := slidingttl.New(m, policy, &slidingttl.Options[session]{MaxSkew: time.Minute})
			ok(t, err)
			d := &moody{Driver: m, rnd: rnd}
			b, n := newFake(), 0
			insert := func(most time.Duration) {
				now := driver.Floor(m.Now())
				life := driver.Life{CreatedAt: now.Add(-40 * day), ExpiresAt: now.Add(1 + time.Duration(rnd(int(most))))}
				_, err := m.Insert(t.Context(), fmt.Sprint("key-", n), session{}, life, now)
				ok(t, err)
				n++
			}
			harvest := func(ctx context.Context, o upkeep.HarvestOptions, refuses int) (*upkeep.Report, error) {
				w, err := archive.NewWriter(b, nil)
				ok(t, err)
				g := &archive.Archiver{Writer: w, Source: "s"}
				o.Bury = func(ctx context.Context, dead []driver.Dead) error {
					if refuses--; refuses == 0 {
						return archive.ErrRefused
					}
					return g.Archive(ctx, dead)
				}
				o.Grace, o.Segments, o.Page, o.Batch = 3*time.Minute, 1+rnd(4), 3+rnd(20), 1+rnd(3)
				return g.Harvest(ctx, "store", d, policy, &o)
			}
			for range 5 {
				for range 10 + rnd(40) {
					insert(2 * time.Hour)
				}
				time.Sleep(time.Duration(rnd(int(2 * time.Hour))))
				if rnd(4) == 0 {
					policy.MaxLifetime += day
				}
				d.moved = rnd(3) == 0
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd(90))*time.Second)
				go func() { // while the harvest runs
					if driver.Sleep(ctx, time.Duration(rnd(30))*time.Second) == nil {
						_ = s.Retire(ctx, fmt.Sprint("key-", rnd(n)))
					}
				}()
				_, _ = harvest(ctx, upkeep.HarvestOptions{}, 1+rnd(30))
				cancel()
				synctest.Wait()
			}
			time.Sleep(3 * time.Hour)
			d.calm = true
			_, err = harvest(t.Context(), upkeep.HarvestOptions{}, 0) // up to the time of one that was ended
			ok(t, err)
			r, err := harvest(t.Context(), upkeep.HarvestOptions{}, 0)
			ok(t, err)
			if found := all(t, b); len(found) != n {
				t.Errorf("seed %d: %d of %d are archived\n%v", seed, len(found), n, r)
			}
			ok(t, s.Close(t.Context()))
			ok(t, m.Close())
		}
	})
}
