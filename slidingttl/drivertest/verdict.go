package drivertest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// rules are the rules for the answers of a soak.
type rules struct {
	policy     slidingttl.Policy
	resolution time.Duration
	straggler  time.Duration
	lost       []Span // answers given then may be lost afterwards
}

// verdict checks the events of one key.
type verdict struct {
	*rules
	events  []event // by their start
	writes  map[int64]*event
	deletes []*event           // by their start
	seen    []*event           // reads and updates that found a record
	lives   map[int64][]*event // of seen, by the write that began the record's life
	faults  []string
}

// judge checks the events of one key against each other. It returns how many reads found a
// record, and the contradictions.
func (r *rules) judge(events []event) (found int, faults []string) {
	slices.SortFunc(events, func(a, b event) int { return a.start.Compare(b.start) })
	v := &verdict{rules: r, events: events, writes: make(map[int64]*event), lives: make(map[int64][]*event)}
	for i := range events {
		e := &events[i]
		v.writes[e.id] = e
		switch {
		case e.op == "delete" && e.may():
			v.deletes = append(v.deletes, e)
		case (e.op == "read" || e.op == "update") && e.err == nil:
			v.seen = append(v.seen, e)
			v.lives[e.life()] = append(v.lives[e.life()], e)
		}
	}
	for _, e := range v.seen {
		v.value(e)
		v.update(e)
		v.deleted(e)
		if e.op == "read" {
			found++
			v.life(e)
			v.alive(e)
		}
	}
	return found, v.faults
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// value checks that a value consists of writes that may have landed, each of them once.
func (v *verdict) value(e *event) {
	got := e.entry.Value.Writes
	for n, id := range got {
		if w := v.writes[id]; w == nil || !w.may() || w.start.After(e.end) || slices.Contains(got[:n], id) {
			v.fault("a record holds the write %d of %v, which failed, is to come, or is there already", id, got)
		}
	}
}

// update checks that no later value of the same life lacks the update e.
func (v *verdict) update(e *event) {
	if e.op != "update" {
		return
	}
	for _, then := range v.lives[e.life()] {
		if then.start.After(e.end) && !v.forgotten(e, then) && !slices.Contains(then.entry.Value.Writes, e.id) {
			v.fault("the update %d is lost: %v", e.id, then.entry.Value.Writes)
		}
	}
}

// deleted checks that no life is seen after its end.
func (v *verdict) deleted(e *event) {
	w := v.writes[e.life()]
	if w == nil || w.err != nil {
		return
	}
	for _, d := range v.deletes {
		if d.err == nil && d.start.After(w.end) && e.start.After(d.end) && !v.forgotten(d, e) {
			v.fault("the record that write %d began was deleted, and is back", e.life())
		}
	}
}

// life checks that a read found a record that may be alive, with an expiry that was promised.
func (v *verdict) life(e *event) {
	limit := v.limit(e)
	if !e.start.Before(limit) {
		v.fault("a record was read %v past its cap", e.start.Sub(limit))
	}
	expiry := e.entry.ExpiresAt.Time()
	latest := e.end.Add(v.policy.IdleGrace + v.policy.Slack)
	if limit.Before(latest) {
		latest = limit
	}
	if !expiry.Before(latest.Add(v.resolution + time.Millisecond)) {
		v.fault("an expiry lies %v past what was promised", expiry.Sub(latest))
	}
}

// alive checks that all reads before the expiry of e find the same life.
func (v *verdict) alive(e *event) {
	until := e.entry.ExpiresAt.Time()
	if limit := v.limit(e); limit.Before(until) { // which was rounded up
		until = limit
	}
	deleted := v.deletedFrom(e)
	next, _ := slices.BinarySearchFunc(v.events, e.end, func(then event, end time.Time) int { return then.start.Compare(end) })
	for i := next; i < len(v.events) && v.events[i].start.Before(until); i++ {
		then := &v.events[i]
		if then.op != "read" || !then.start.After(e.end) || !then.end.Before(until) || !then.end.Before(deleted) || v.forgotten(e, then) {
			continue
		}
		switch {
		case errors.Is(then.err, slidingttl.ErrNotFound):
			v.fault("a record is gone %v before the expiry that was read", until.Sub(then.end))
		case then.err != nil: // the read failed
		case then.life() != e.life() || then.entry.CreatedAt != e.entry.CreatedAt || then.entry.ExpiresAt < e.entry.ExpiresAt:
			v.fault("a record with %+v, of write %d, has become one with %+v, of write %d, while it was alive", e.entry.Meta, e.life(), then.entry.Meta, then.life())
		}
	}
}

func (v *verdict) limit(e *event) time.Time {
	return e.entry.CreatedAt.Time().Add(v.policy.MaxLifetime)
}

// deletedFrom returns when the first delete began that may have landed after e began.
func (v *verdict) deletedFrom(e *event) time.Time {
	for _, d := range v.deletes {
		end := d.end
		if d.err != nil {
			end = end.Add(v.straggler)
		}
		if !end.Before(e.start) {
			return d.start
		}
	}
	return e.end.Add(math.MaxInt64) // centuries later
}

// forgotten reports whether the backend may have lost, before then, what first was answered.
func (v *verdict) forgotten(first, then *event) bool {
	return slices.ContainsFunc(v.lost, func(s Span) bool { return s.meets(first) && then.end.After(s.Start) })
}

// meets reports whether e may have been answered in s: a client notes an answer after it came.
func (s Span) meets(e *event) bool { return !e.end.Before(s.Start) && !e.start.After(s.End) }
