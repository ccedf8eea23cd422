package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// writes reports whether the call writes a value, or deletes one.
func (o *op) writes() bool {
	return slices.Contains([]string{"insert", "upsert", "upsert multi", "update", "save", "delete", "delete multi", "delete entry", "get or insert"}, o.name)
}

// answered reports whether key, of a call for many that ended with err, got its answer.
func (o *op) answered(err error, key string) bool {
	var failed slidingttl.KeyErrors
	if !errors.As(err, &failed) || o.readFailed {
		return false
	}
	return !slices.ContainsFunc(failed, func(e *slidingttl.KeyError) bool { return o.keys[e.Index] == key })
}

// erred reports whether o failed for key, and checks that something in the history may have
// caused it.
func (w *world) erred(o *op, key string, err error) bool {
	bad := func(promise int) {
		w.violated(promise, key, "%v from %s to %s: %v", o, stamp(o.start), stamp(o.end), err)
	}
	var failed slidingttl.KeyErrors
	switch {
	case err == nil:
		return false
	case errors.As(err, &failed):
		for _, e := range failed {
			if slices.Index(o.keys, o.keys[e.Index]) != e.Index && o.looks() {
				bad(12)
			}
			w.erred(o, o.keys[e.Index], e.Err)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		if o.ctx.Err() == nil && !w.timedOut(o, key) {
			bad(12)
		}
	case errors.Is(err, slidingttl.ErrClosed):
		if o.i.closing.IsZero() {
			bad(12)
		}
	case errors.Is(err, errDown):
		switch {
		case o.readFailed, o.writeFailed, o.name == "touch", o.name == "save", o.name == "delete entry":
		case (!o.writes() || o.name == "get or insert") && o.p.opts.Strict && o.failedAside(key):
		default:
			bad(8)
		}
	case errors.Is(err, errNoRow):
		if !w.absent(o, key) || o.name != "find" {
			bad(3)
		}
		o.i.gone[key] = absence{start: o.start, effect: o.start, told: o.end}
	case errors.Is(err, slidingttl.ErrNotFound):
		switch {
		case o.name == "update" && w.outlived(o), o.name == "save" && w.outlived(o):
			return true // and was alive
		case o.writes() && o.name != "update" && o.name != "save" && o.name != "delete entry":
			bad(12)
		case !w.absent(o, key):
			bad(3)
		}
		if o.reads > 0 {
			o.i.gone[key] = absence{start: o.start, effect: o.start, told: o.end}
		}
	case errors.Is(err, slidingttl.ErrShed): // the record died before the touch, by the clock of the process whose record has its place
		if !o.p.opts.Strict || o.writes() && o.name != "get or insert" || !w.absentBy(o, key, w.plan.maxSkew) {
			bad(12)
		}
	case errors.Is(err, slidingttl.ErrExists):
		if o.name != "insert" || !w.readable(o, key, func(*state) bool { return true }) {
			bad(12)
		}
	case errors.Is(err, slidingttl.ErrForeign):
		switch {
		case o.name == "update" && o.foreign:
		case w.foreign == slidingttl.Adopt, !w.readable(o, key, func(s *state) bool { return s.CreatedAt == 0 }),
			w.foreign == slidingttl.ReadOnly && !o.writes() && o.name != "touch":
			bad(10)
		}
	case errors.Is(err, slidingttl.ErrConflict):
		if o.name != "delete entry" || !w.sometime(key, o.start, o.end, func(s *state, _, _ time.Time) bool {
			return s.present && (s.value != o.value || o.foreign) || w.bumps
		}) {
			bad(9)
		}
	default:
		bad(12)
	}
	return true
}

// timedOut reports whether the touch that o waited for, and whose failure is o's, may
// have come to the end of Options.TouchTimeout.
func (w *world) timedOut(o *op, key string) bool {
	return (o.p.opts.Strict && (!o.writes() || o.name == "get or insert") || o.name == "touch" || o.name == "save") && o.failedAside(key)
}

// outlived reports whether the record was past the cap of the value that o writes, or of one
// that another wrote meanwhile.
func (w *world) outlived(o *op) bool {
	if o.value.id == 0 {
		return false
	}
	var brings [kinds]bool
	brings[o.value.kind] = true
	var created []driver.Instant
	w.during(o.key, o.start.Add(-w.plan.stale), o.end, func(s *state, _, _ time.Time) bool {
		if s.present {
			brings[s.value.kind] = true
			created = append(created, s.CreatedAt)
		}
		return true
	})
	for kind, ok := range brings {
		if ok && slices.ContainsFunc(created, func(c driver.Instant) bool {
			return o.p.any(kind, o.start, o.end, func(r rule) bool {
				return r.dead(driver.Life{CreatedAt: c}, floor(o.p.clock(o.end)))
			})
		}) {
			return true
		}
	}
	return false
}
