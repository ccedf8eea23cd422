package memory

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A scan visits the shards in order, and the records of a shard by their hashes with the bits
// reversed. A grid's bucket is home to the hashes with the same low bits. Reversed, these are
// a range of numbers, which a grid of twice or half the size splits or joins. So a place in
// this order is the same in every grid of a shard, and a record that stays is met exactly once.

// place is a shard's number, followed by the 32 bits of a hash, reversed.
type place uint64

const (
	shardBits = 32
	lastPlace = place(tableShards) << shardBits
)

// span is the rest of a segment.
type span struct{ from, to place }

func (s span) cursor() driver.Cursor {
	if s.from >= s.to {
		return ""
	}
	return driver.Cursor(fmt.Sprintf("memory:%x-%x", uint64(s.from), uint64(s.to)))
}

func parseSpan(c driver.Cursor) (s span, err error) {
	_, err = fmt.Sscanf(string(c), "memory:%x-%x", &s.from, &s.to)
	if err != nil || s.from >= s.to || s.to > lastPlace || s.cursor() != c {
		return s, driver.BadCursor(c)
	}
	return s, nil
}

// Segments implements driver.Scanner. The segments are of about one size. Their cursors are
// valid as long as the driver.
func (d *Driver[T]) Segments(_ context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	if d.closed.Load() {
		return nil, ErrClosed
	}
	n = min(n, maxSegments)
	cursors := make([]driver.Cursor, n)
	step := lastPlace / place(n)
	for i := range cursors {
		s := span{place(i) * step, place(i+1) * step}
		if i == n-1 {
			s.to = lastPlace
		}
		cursors[i] = s.cursor()
	}
	return cursors, nil
}

const (
	maxSegments = 1 << 20
	pageRoom    = 4096 // records for which a new page has capacity
)

// Scan implements driver.Scanner. It takes no lock. A record that exists throughout, even if
// it is overwritten, is in one page of a scan, once.
func (d *Driver[T]) Scan(_ context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	s, err := parseSpan(from)
	if err != nil {
		return driver.Page{}, err
	}
	if d.closed.Load() {
		return driver.Page{}, ErrClosed
	}
	page := driver.Page{Records: make([]driver.Scanned, 0, min(limit, pageRoom)+bucketSlots)}
	for s.from < s.to && len(page.Records) < limit {
		shard := s.from >> shardBits
		end := min(s.to, (shard+1)<<shardBits)
		g := d.records.shards[shard].grid.Load()
		if g == nil {
			s.from = end
			continue
		}
		for s.from < end && len(page.Records) < limit {
			at := uint32(s.from)
			home := bits.Reverse32(at) & g.mask
			// The last place of those whose home is this bucket.
			run := shard<<shardBits | place(at|bits.Reverse32(^g.mask))
			until := min(end, run+1)
			g.scan(home, func(r *record[T]) {
				if p := shard<<shardBits | place(bits.Reverse32(r.hash)); p >= s.from && p < until {
					page.Records = append(page.Records, d.scanned(r))
				}
			})
			s.from = until
		}
	}
	page.Next = s.cursor()
	return page, nil
}

func (d *Driver[T]) scanned(r *record[T]) driver.Scanned {
	s := driver.Scanned{Key: r.key(), Meta: r.meta()}
	if d.opts.Retain > 0 && s.ExpiresAt != 0 {
		s.HeldUntil = d.goes(s.ExpiresAt)
	}
	return s
}

// scan calls each for the records whose home is that bucket.
func (g *grid[T]) scan(home uint32, each func(*record[T])) {
	for i, n := home, 0; n < len(g.buckets); i, n = (i+1)&g.mask, n+1 {
		b := &g.buckets[i]
		tags := b.tags.Load()
		for slot := range b.slots {
			if r := b.slots[slot].Load(); r != nil && r.hash&g.mask == home {
				each(r)
			}
		}
		if tags>>passedShift == 0 {
			return
		}
	}
}
