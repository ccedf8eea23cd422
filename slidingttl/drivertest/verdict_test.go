package drivertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// diaryStart is the time at which the histories of these tests begin.
var diaryStart = driver.Floor(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func second(n int) driver.Instant { return diaryStart.Add(time.Duration(n) * time.Second) }

// happened returns a call that begins at second at and takes a second.
func happened(op string, id int64, at int, err error, writes ...int64) event {
	e := event{op: op, id: id, start: second(at).Time(), end: second(at + 1).Time(), err: err}
	e.entry.Value.Writes = writes
	e.entry.Life = driver.Life{CreatedAt: diaryStart, ExpiresAt: second(at + 61)}
	return e
}

// peaceful is a history of one key without contradictions.
func peaceful() []event {
	return []event{
		happened("insert", 1, 0, nil),
		happened("read", 2, 2, nil, 1),
		happened("update", 3, 4, nil, 1, 3),
		happened("read", 4, 6, nil, 1, 3),
		happened("read", 5, 8, errors.New("down")),
		happened("delete", 6, 10, nil),
		happened("read", 7, 12, slidingttl.ErrNotFound),
	}
}

func TestSoakJudges(t *testing.T) {
	r := &rules{policy: slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, resolution: time.Second}
	if found, faults := r.judge(peaceful()); found != 2 || len(faults) > 0 {
		t.Fatalf("%d found, %q", found, faults)
	}
	for want, spoil := range map[string]func([]event) []event{
		"which failed": func(h []event) []event {
			h[2].err = slidingttl.ErrConflict
			return h
		},
		"or is there already": func(h []event) []event {
			h[3].entry.Value.Writes = []int64{1, 3, 3}
			return h
		},
		"is to come": func(h []event) []event {
			h[1].entry.Value.Writes = []int64{1, 3}
			return h
		},
		"the update 3 is lost": func(h []event) []event {
			h[3].entry.Value.Writes = []int64{1}
			return h
		},
		"was deleted, and is back": func(h []event) []event {
			return append(h, happened("read", 8, 14, nil, 1, 3))
		},
		"past its cap": func(h []event) []event {
			h[3].entry.CreatedAt = diaryStart.Add(-time.Hour)
			return h
		},
		"past what was promised": func(h []event) []event {
			h[3].entry.ExpiresAt = second(70)
			return h
		},
		"is gone": func(h []event) []event {
			h[4].err = slidingttl.ErrNotFound
			return h
		},
		"has become one": func(h []event) []event {
			h[3].entry.ExpiresAt = second(60)
			return h
		},
	} {
		_, faults := r.judge(spoil(peaceful()))
		if !strings.Contains(strings.Join(faults, "\n"), want) {
			t.Errorf("%q: found %q", want, faults)
		}
	}
}

// Only writes answered before a replica took over may be lost.
func TestSoakForgets(t *testing.T) {
	r := &rules{policy: slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, resolution: time.Second}
	h := peaceful()
	h[3].entry.Value.Writes = []int64{1} // the update is lost
	r.lost = []Span{{Start: second(4).Time(), End: second(5).Time()}}
	if _, faults := r.judge(h); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
	r.lost = []Span{{Start: second(9).Time(), End: second(9).Time()}}
	if _, faults := r.judge(h); len(faults) != 1 {
		t.Errorf("%q; want the update that was lost before", faults)
	}
}

// A delete whose answer was lost may be executed a little later.
func TestSoakWaitsForStragglers(t *testing.T) {
	r := &rules{policy: slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, resolution: time.Second}
	h := []event{
		happened("insert", 1, 0, nil),
		happened("delete", 2, 2, slidingttl.ErrAmbiguous),
		happened("read", 3, 4, nil, 1),
		happened("read", 4, 6, slidingttl.ErrNotFound),
	}
	if _, faults := r.judge(h); len(faults) != 1 {
		t.Errorf("%q; want a record that is gone", faults)
	}
	r.straggler = 2 * time.Second
	if _, faults := r.judge(h); len(faults) > 0 {
		t.Errorf("%q", faults)
	}
}
