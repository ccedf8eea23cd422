package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var latestCases = []testCase{{
	name:        "latest/written",
	explanation: "Latest must return every write that was answered. A store calls it when a read finds a record dead; a stale answer then logs a user out.",
	run: func(t *trial) {
		want := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.latest("after Insert", t.key("a"), want)
		var err error
		want.Life = t.later(want.Life, time.Hour)
		want.Version, err = t.d.Touch(t.ctx, t.key("a"), t.get(t.key("a")).Meta, want.Life, t.now())
		t.ok("Touch", err)
		t.latest("after Touch", t.key("a"), want)
		want = t.replaced("Replace", t.key("a"), 2, want.Meta, want.Life)
		t.latest("after Replace", t.key("a"), want)
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		_, err = driver.GetLatest(t.ctx, t.d, t.key("a"))
		t.notFound("Latest after Delete", err)
	},
}, {
	name:        "latest/invalid-key",
	explanation: "In Latest too, a key that the store cannot take is a caller's mistake and not an absent record.",
	run: func(t *trial) {
		_, err := driver.GetLatest(t.ctx, t.d, "")
		t.invalid("Latest of an empty key", err)
	},
}}

// latest wants exactly want from Latest.
func (t *trial) latest(when, key string, want driver.Entry[Value]) {
	e, err := driver.GetLatest(t.ctx, t.d, key)
	t.ok("Latest "+when, err)
	t.same("Latest "+when, e, want)
}
