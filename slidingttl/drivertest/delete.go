package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var deleteCases = []testCase{{
	name:        "delete/live",
	explanation: "Delete must remove the record. Otherwise a logged-out session stays valid.",
	run: func(t *trial) {
		t.insert(t.key("a"), 1, t.life(time.Hour))
		other := t.insert(t.key("b"), 2, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.absent("after Delete", t.key("a"))
		t.stored("another key", t.key("b"), other)
	},
}, {
	name:        "delete/absent",
	explanation: "Deleting an absent key is no error: logging out twice must work.",
	run: func(t *trial) {
		t.ok("Delete of a key never written", t.d.Delete(t.ctx, t.key("never")))
		t.insert(t.key("a"), 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.ok("Delete again", t.d.Delete(t.ctx, t.key("a")))
	},
}, {
	name:        "delete/foreign",
	explanation: "Delete must remove a record whatever its state, also one of another program. Otherwise what a user was told is deleted stays, and is adopted later.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		for name, l := range map[string]driver.Life{"bare": {}, "expires": {ExpiresAt: t.life(time.Hour).ExpiresAt}} {
			t.plant(t.key(name), 1, l)
			t.ok("Delete of a record without created_at", t.d.Delete(t.ctx, t.key(name)))
			t.absent("after Delete of a record without created_at", t.key(name))
		}
	},
}, {
	name:        "delete/then-insert",
	explanation: "A deleted key is free for a new record, which keeps nothing of the old one.",
	run: func(t *trial) {
		old := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.advance(time.Second)
		e := t.insert(t.key("a"), 2, t.life(2*time.Hour))
		t.stored("after Insert of a deleted key", t.key("a"), e)
		_, err := t.d.Touch(t.ctx, t.key("a"), old.Meta, t.later(old.Life, 3*time.Hour), t.now())
		t.conflict("Touch planned for the deleted record", err, e.Meta)
		_, err = t.d.Replace(t.ctx, t.key("a"), value(1), old.Meta, old.Life, t.now())
		t.conflict("Replace planned for the deleted record", err, e.Meta)
		t.stored("after both", t.key("a"), e)
	},
}}
