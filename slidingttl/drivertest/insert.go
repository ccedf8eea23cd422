package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var insertCases = []testCase{{
	name:        "insert/live",
	explanation: "Insert must not overwrite a live record, and must hand back its life and version: a second sign-up would replace the first, and an upsert would restart the max lifetime.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.advance(time.Minute)
		_, err := t.d.Insert(t.ctx, t.key("a"), value(2), t.life(2*time.Hour), t.now())
		t.conflict("Insert over a live record", err, e.Meta)
		t.stored("after Insert over it", t.key("a"), e)
	},
}, {
	name:        "insert/live-to-the-end",
	explanation: "A record lives until its expiry, to the last millisecond: an Insert before then must not replace it.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		last := e.ExpiresAt - 1
		_, err := t.d.Insert(t.ctx, t.key("a"), value(2), t.later(e.Life, time.Hour), last)
		t.conflict("Insert a millisecond before the expiry", err, e.Meta)
		t.stored("after Insert over it", t.key("a"), e)
	},
}, {
	name:        "insert/dead",
	explanation: "A store that deletes late must not be believed: a record whose expiry has come is dead whatever is still stored, and Insert starts a new life in its place. Otherwise a key stays unusable until the store's own clean-up.",
	run: func(t *trial) {
		old := t.insert(t.key("a"), 1, t.life(time.Hour))
		now := old.ExpiresAt // dead at this very instant
		life := driver.Life{CreatedAt: now, ExpiresAt: t.at(now.Add(time.Hour))}
		version, err := t.d.Insert(t.ctx, t.key("a"), value(2), life, now)
		t.ok("Insert over a record whose expiry is now", err)
		t.stored("after Insert", t.key("a"), driver.Entry[Value]{Value: value(2), Meta: driver.Meta{Life: life, Version: version}})
	},
}, {
	name:        "insert/foreign",
	explanation: "A record of another program that has not expired is alive, above all one that never expires: Insert must leave it and hand it back with zeros for what it does not carry.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = 0
		e := t.plant(t.key("expires"), 1, l)
		_, err := t.d.Insert(t.ctx, t.key("expires"), value(2), t.life(time.Hour), t.now())
		t.conflict("Insert over a record without created_at", err, e.Meta)
		t.stored("after Insert over it", t.key("expires"), e)

		e = t.plant(t.key("stays"), 1, driver.Life{})
		t.advance(10 * 365 * 24 * time.Hour)
		_, err = t.d.Insert(t.ctx, t.key("stays"), value(2), t.life(time.Hour), t.now())
		t.conflict("Insert over a record without expiry, ten years later", err, e.Meta)
		t.stored("after Insert over it", t.key("stays"), e)
	},
}, {
	name:        "insert/foreign-dead",
	explanation: "A dead record is dead whoever wrote it, with created_at or without.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = 0
		t.plant(t.key("a"), 1, l)
		t.advance(2 * time.Hour)
		e := t.insert(t.key("a"), 2, t.life(time.Hour))
		t.stored("after Insert over a dead record without created_at", t.key("a"), e)
	},
}}
