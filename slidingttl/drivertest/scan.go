package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// visited is what a scan returned, by key, page by page.
type visited map[string][]driver.Scanned

// unnamed is the key under which visited has records whose key cannot be read. They may belong
// to tests that run in parallel.
const unnamed = ""

// scanner returns the driver's, for cases that need it.
func (t *trial) scanner() driver.Scanner {
	s, _ := driver.As[driver.Scanner](t.d)
	return s
}

// again returns a second driver on the same store, as in another process.
func (t *trial) again() driver.Scanner {
	if t.b.Again == nil {
		return t.scanner()
	}
	s, ok := driver.As[driver.Scanner](t.b.Again())
	if !ok {
		t.Fatalf("Backend.Again returns a driver that is no driver.Scanner")
	}
	return s
}

func (t *trial) segments(n int) []driver.Cursor {
	cursors, err := t.scanner().Segments(t.ctx, n)
	t.ok(fmt.Sprintf("Segments of %d", n), err)
	if len(cursors) < 1 || len(cursors) > n {
		t.Fatalf("Segments of %d returns %d cursors", n, len(cursors))
	}
	for _, c := range cursors {
		if c == "" {
			t.Fatalf("Segments returns an empty cursor, which is an end")
		}
	}
	return cursors
}

// page scans one page, and notes the records of this case.
func (t *trial) page(s driver.Scanner, from driver.Cursor, limit int, seen visited) driver.Page {
	p, err := s.Scan(t.ctx, from, limit)
	t.ok("Scan", err)
	if p.Cost < 0 || math.IsNaN(p.Cost) || math.IsInf(p.Cost, 0) {
		t.Errorf("a page cost %v", p.Cost)
	}
	for _, r := range p.Records {
		if r.Key == "" && r.Problem == nil || r.Size < 0 {
			t.Errorf("a record has a key of %d bytes and a size of %d", len(r.Key), r.Size)
		}
		switch {
		case strings.HasPrefix(r.Key, t.prefix):
			seen[r.Key] = append(seen[r.Key], r)
		case r.Problem != nil:
			seen[unnamed] = append(seen[unnamed], r)
		}
	}
	return p
}

// scanAll scans segments one after the other, and calls each between pages.
func (t *trial) scanAll(cursors []driver.Cursor, limit int, seen visited, each func()) {
	for _, at := range cursors {
		for pages := 0; at != ""; pages++ {
			if pages > 1e6 {
				t.Fatalf("a segment does not end")
			}
			at = t.page(t.scanner(), at, limit, seen).Next
			if each != nil {
				each()
			}
		}
	}
}

// met wants seen to hold exactly the records of want.
func (t *trial) met(when string, seen visited, want map[string]driver.Meta) {
	missing := 0
	for key, m := range want {
		states := seen[key]
		if len(states) == 0 {
			missing++
		}
		for _, r := range states {
			if r.Life != m.Life || r.Version != m.Version {
				t.Errorf("%s: a record came with %s, version %d; want %s, version %d", when, describe(r.Life), r.Version, describe(m.Life), m.Version)
			}
			if r.Problem != nil {
				t.Errorf("%s: a record that is well came with the problem %v", when, r.Problem)
			}
		}
	}
	if missing > 0 {
		t.Errorf("%s: %d of %d records are in no page", when, missing, len(want))
	}
	for key := range seen {
		if _, ok := want[key]; !ok && key != unnamed {
			t.Errorf("%s: a record came that is not stored", when)
		}
	}
}

// population makes n records, and returns what they are stored as.
func (t *trial) population(n int) map[string]driver.Meta {
	var mu sync.Mutex // guards metas
	metas := make(map[string]driver.Meta, n)
	t.together(4, func(part int) {
		for i := part; i < n; i += 4 {
			key := t.key(fmt.Sprint("many-", i))
			e := t.insert(key, i, t.life(time.Hour+time.Duration(i)*time.Minute))
			mu.Lock()
			metas[key] = e.Meta
			mu.Unlock()
		}
	})
	return metas
}

var scanCases = []testCase{{
	name:        "scan/all",
	explanation: "A scan must return every record, with the life and version that Get returns, and nothing else. Otherwise an adoption, audit or reap leaves records out, or plans writes from records that never existed.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		want := t.population(60)
		gone := t.key("gone")
		t.insert(gone, 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, gone))
		moved := t.key("many-0")
		e := t.touched("Touch", moved, driver.Entry[Value]{Value: value(0), Meta: want[moved]}, t.later(want[moved].Life, time.Hour))
		want[moved] = t.replaced("Replace", moved, 7, e.Meta, e.Life).Meta
		longest := t.prefix + strings.Repeat("k", t.longestKey()-len(t.prefix))
		want[longest] = t.insert(longest, 8, t.life(time.Hour)).Meta
		for _, limit := range []int{3, 1000} {
			seen := make(visited)
			t.scanAll(t.segments(1), limit, seen, nil)
			t.met(fmt.Sprintf("a scan in pages of %d", limit), seen, want)
		}
		t.advance(80 * time.Minute) // some are dead to their caller now
		seen := make(visited)
		t.scanAll(t.segments(1), 50, seen, nil)
		t.met("a scan when some are dead", seen, want)
	},
}, {
	name:        "scan/segments",
	explanation: "The segments of a store must together hold every record, also when they are scanned concurrently. A record that is in none of them is never adopted.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		want := t.population(60)
		for _, n := range []int{2, 5, 64} {
			cursors := t.segments(n)
			parts := make([]visited, len(cursors))
			t.together(len(cursors), func(i int) {
				parts[i] = make(visited)
				t.scanAll(cursors[i:i+1], 11, parts[i], nil)
			})
			seen := make(visited)
			for _, part := range parts {
				for key, states := range part {
					if len(seen[key]) > 0 && key != unnamed {
						t.Errorf("a record is in two of %d segments: each walk counts it twice", n)
					}
					seen[key] = append(seen[key], states...)
				}
			}
			t.met(fmt.Sprintf("%d segments", n), seen, want)
		}
	},
}, {
	name:        "scan/dead",
	explanation: "A scan must return the dead records that the store still holds. Otherwise nothing removes them, and no archive gets them.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		key := t.key("dead")
		e := t.insert(key, 1, t.life(2*t.unit))
		t.until(e.ExpiresAt.Add(t.unit))
		seen := make(visited)
		t.scanAll(t.segments(1), 100, seen, nil)
		if _, err := t.d.Get(t.ctx, key); err == nil { // the store does not remove it by itself, or not yet
			t.met("a scan of what is dead", seen, map[string]driver.Meta{key: e.Meta})
		}
	},
}, {
	name:        "scan/resumed",
	explanation: "A cursor is text from which another process can continue, more than once: a killed run is resumed from its last cursor, and must not leave out the rest.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		want := t.population(60)
		before := make(visited)
		at := t.segments(1)[0]
		for pages := 0; at != "" && len(before) < 20 && pages < 1e6; pages++ {
			at = t.page(t.scanner(), at, 10, before).Next
		}
		for range 2 {
			seen := make(visited)
			for key, states := range before {
				seen[key] = states
			}
			for next := at; next != ""; {
				next = t.page(t.again(), driver.Cursor(strings.Clone(string(next))), 10, seen).Next
			}
			t.met("a scan that another process ends", seen, want)
		}
	},
}, {
	name:        "scan/meanwhile",
	explanation: "A scan must return a record that exists throughout, whatever happens to it and its neighbours. Otherwise a scan beside live traffic leaves out records that were not deleted.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		want := t.population(40)
		const leave = 40
		leaving := func(i int) string { return t.key(fmt.Sprint("leaving-", i)) }
		for i := range leave {
			t.insert(leaving(i), i, t.life(time.Hour))
		}
		touched := make(map[string]driver.Entry[Value])
		for i := range 5 {
			key := t.key(fmt.Sprint("touched-", i))
			touched[key] = t.insert(key, i, t.life(time.Hour))
		}
		var passing []string
		n := 0
		seen := make(visited)
		t.scanAll(t.segments(2), 10, seen, func() {
			if n >= leave {
				return
			}
			for range 4 {
				t.ok("Delete meanwhile", t.d.Delete(t.ctx, leaving(n)))
				n++
			}
			for range 8 {
				key := t.key(fmt.Sprint("passing-", len(passing)))
				t.insert(key, 1, t.life(time.Hour))
				passing = append(passing, key)
			}
			for key, e := range touched {
				touched[key] = t.touched("Touch meanwhile", key, e, t.later(e.Life, time.Second+t.step))
			}
		})
		for i := range leave {
			delete(seen, leaving(i))
		}
		for key := range touched {
			if len(seen[key]) == 0 {
				t.Errorf("a record that was touched meanwhile is in no page")
			}
			delete(seen, key)
		}
		for _, key := range passing {
			delete(seen, key)
		}
		t.met("a scan beside other writes", seen, want)
	},
}, {
	name:        "scan/foreign",
	explanation: "A scan must return records of other programs as they are, without created_at or expiry if they have none: an adoption looks for them.",
	needs:       []Feature{Scanner, Plant},
	run: func(t *trial) {
		want := map[string]driver.Meta{
			t.key("bare"):    t.plant(t.key("bare"), 1, driver.Life{}).Meta,
			t.key("expires"): t.plant(t.key("expires"), 2, driver.Life{ExpiresAt: t.life(time.Hour).ExpiresAt}).Meta,
			t.key("own"):     t.insert(t.key("own"), 3, t.life(time.Hour)).Meta,
		}
		seen := make(visited)
		t.scanAll(t.segments(1), 100, seen, nil)
		for _, name := range []string{"bare", "expires"} {
			key := t.key(name)
			if met := seen[key]; len(met) > 0 && met[0].Version == 0 { // it takes a read of the value to tell it
				m := want[key]
				m.Version = 0
				want[key] = m
			}
		}
		t.met("a scan", seen, want)
		if len(seen[t.key("bare")]) == 0 {
			return
		}
		bare := seen[t.key("bare")][0]
		life := t.life(2 * time.Hour)
		_, err := t.d.Touch(t.ctx, bare.Key, bare.Meta, life, t.now())
		var conflict *driver.ConflictError
		if bare.Version == 0 && errors.As(err, &conflict) {
			_, err = t.d.Touch(t.ctx, bare.Key, conflict.Found, life, t.now())
		}
		t.ok("Touch of a record as the scan found it", err)
		if e := t.get(bare.Key); e.Life != life {
			t.Errorf("after Touch the record has %s; want %s", describe(e.Life), describe(life))
		}
	},
}, {
	name:        "scan/malformed",
	explanation: "A record whose life cannot be read must come with an *InvalidError as its Problem, and the scan must go on. Otherwise one bad record among millions ends every audit.",
	needs:       []Feature{Scanner, Malform},
	run: func(t *trial) {
		want := t.population(10)
		bad := t.key("bad")
		t.ok("Backend.Malform", t.b.Malform(t.ctx, bad, value(1)))
		seen := make(visited)
		t.scanAll(t.segments(1), 5, seen, nil)
		if len(seen[bad]) == 0 {
			t.Errorf("a record whose life cannot be read is in no page")
		}
		for _, r := range seen[bad] {
			if !errors.Is(r.Problem, driver.ErrInvalid) {
				t.Errorf("a record whose life cannot be read comes with the problem %v; want a *driver.InvalidError", r.Problem)
			}
			t.quiet("the problem", r.Problem)
		}
		delete(seen, bad)
		t.met("a scan past a record that cannot be read", seen, want)
	},
}, {
	name:        "scan/invalid",
	explanation: "A cursor of another driver, or a count below one, must be an *InvalidError: otherwise a scan that finds nothing looks like one that is done.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		invalid := func(when string, err error) {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: the error is %v; want a *driver.InvalidError", when, err)
			}
			t.quiet(when, err)
		}
		s := t.scanner()
		for _, c := range []driver.Cursor{"", "\x00", driver.Cursor(t.prefix + "no cursor of any driver")} {
			_, err := s.Scan(t.ctx, c, 10)
			invalid(fmt.Sprintf("Scan from a cursor of %d bytes that is none", len(c)), err)
		}
		_, err := s.Scan(t.ctx, t.segments(1)[0], 0)
		invalid("Scan of no records", err)
		_, err = s.Segments(t.ctx, 0)
		invalid("Segments of none", err)
	},
}, {
	name:        "scan/error",
	explanation: "A scan must end with the store's own error when the store fails, not as if it were complete, and continue from the same cursor when the store works again.",
	needs:       []Feature{Scanner, Fail},
	run: func(t *trial) {
		want := t.population(30)
		seen := make(visited)
		at := t.page(t.scanner(), t.segments(1)[0], 10, seen).Next
		mend := t.b.Fail()
		t.cleanup(mend)
		if at != "" {
			if _, err := t.scanner().Scan(t.ctx, at, 10); err == nil {
				t.Errorf("Scan reports success while the store fails")
			} else if !t.b.Own(err) {
				t.Errorf("Scan: the store's own error is not in %v", err)
			}
		}
		mend()
		if at != "" {
			t.scanAll([]driver.Cursor{at}, 10, seen, nil)
		}
		t.met("a scan that failed once", seen, want)
	},
}, {
	name:        "scan/context",
	explanation: "A scan must return soon after its context ends, with the context's error, so that an operator can interrupt it. Only a driver.Local, whose calls do not block, may go on.",
	needs:       []Feature{Scanner},
	run: func(t *trial) {
		t.population(5)
		at := t.segments(1)[0]
		_, local := driver.As[driver.Local[Value]](t.d)
		ctx, cancel := t.ended()
		defer cancel()
		if _, err := t.scanner().Scan(ctx, at, 10); !errors.Is(err, context.Canceled) && !(local && err == nil) {
			t.Errorf("Scan with a context that was cancelled: the error is %v; want %v", err, context.Canceled)
		}
		if t.b.Hang == nil {
			return
		}
		release := t.b.Hang()
		t.cleanup(release)
		ctx, cancel = context.WithTimeout(t.ctx, 300*time.Millisecond)
		defer cancel()
		returned := make(chan error, 1)
		go func() {
			_, err := t.scanner().Scan(ctx, at, 10)
			returned <- err
		}()
		<-ctx.Done()
		select {
		case err := <-returned:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Scan when its context's deadline passed: the error is %v; want %v", err, context.DeadlineExceeded)
			}
		case <-time.After(soon):
			t.Errorf("Scan had not returned %v after its context ended", soon)
			release()
			<-returned
		}
	},
}}
