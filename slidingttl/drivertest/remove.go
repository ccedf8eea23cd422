package drivertest

import (
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var removeCases = []testCase{{
	name:        "remove/live",
	explanation: "Remove of a record as it was read must end it. Otherwise a revoked session stays valid.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		other := t.insert(t.key("b"), 2, t.life(time.Hour))
		t.ok("Remove", t.remove(t.key("a"), e.Meta))
		if e, err := t.d.Get(t.ctx, t.key("a")); err == nil && e.Alive(t.now()) {
			t.Errorf("after Remove: Get returns a live record with %s", describe(e.Life))
		} else if err != nil && !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("after Remove: Get: %v", err)
		}
		t.stored("another key", t.key("b"), other)
		t.notFound("Remove again", t.remove(t.key("a"), e.Meta))
		t.insert(t.key("a"), 3, t.life(time.Hour))
	},
}, {
	name:        "remove/absent",
	explanation: "Remove of an absent or dead record must return ErrNotFound. Otherwise its caller believes that it ended the record.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.notFound("Remove of a key never written", t.remove(t.key("never"), e.Meta))
		t.advance(2 * time.Hour)
		t.notFound("Remove of a dead record", t.remove(t.key("a"), e.Meta))
	},
}, {
	name:        "remove/changed",
	explanation: "Remove must not affect a record other than the one that was read, and must return what it found. Otherwise a value that another caller just wrote is lost.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		is := t.replaced("Replace", t.key("a"), 2, e.Meta, e.Life)
		t.conflict("Remove of an overwritten record", t.remove(t.key("a"), e.Meta), is.Meta)
		t.stored("after that", t.key("a"), is)

		e = t.insert(t.key("b"), 1, t.life(time.Hour))
		t.pushExpiry(t.key("b"), e.Meta)
		touched := t.get(t.key("b"))
		t.conflict("Remove of a touched record", t.remove(t.key("b"), e.Meta), touched.Meta)
		t.stored("after that", t.key("b"), touched)

		old, next := t.regenerated(t.key("c"), t.life(time.Hour), t.life(2*time.Hour))
		t.conflict("Remove of the generation before", t.remove(t.key("c"), old.Meta), next.Meta)
		t.stored("after that", t.key("c"), next)
	},
}, {
	name:        "remove/stale",
	explanation: "Remove must judge the stored record, not what the caller read: another may have touched it since. Otherwise its caller is told that a session has ended which lives on.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		is := t.touched("Touch", t.key("a"), e, t.later(e.Life, 2*time.Hour))
		t.advance(2 * time.Hour)
		t.conflict("Remove of a touched record whose former expiry has passed", t.remove(t.key("a"), e.Meta), is.Meta)
		t.stored("after that", t.key("a"), is)
	},
}}

func (t *trial) remove(key string, was driver.Meta) error {
	return driver.Remove(t.ctx, t.d, key, was, t.now())
}
