package drivertest

import "time"

var getCases = []testCase{{
	name:        "get/absent",
	explanation: "A key that was never written must read as driver.ErrNotFound. Another error fails requests that should only miss.",
	run: func(t *trial) {
		t.absent("a key never written", t.key("a"))
	},
}, {
	name:        "get/meta",
	explanation: "Get must return the life that was written and the version that the write returned, or every later write is planned from a wrong record.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.stored("after Insert", t.key("a"), e)
		t.stored("read again", t.key("a"), e)
		other := t.insert(t.key("b"), 2, t.life(2*time.Hour))
		t.stored("after Insert of another key", t.key("a"), e)
		t.stored("the other key", t.key("b"), other)
	},
}, {
	name:        "get/foreign",
	explanation: "A record written by another program has no created_at, and perhaps no expiry. Get must return zeros for them, or such records cannot be adopted.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = 0
		e := t.plant(t.key("expires"), 1, l)
		t.stored("without created_at", t.key("expires"), e)
		if !e.Value.equal(value(1)) {
			t.Errorf("without created_at: the record holds %s; want %s", spell(e.Value), spell(value(1)))
		}
		l.ExpiresAt = 0
		e = t.plant(t.key("stays"), 2, l)
		if !e.Value.equal(value(2)) {
			t.Errorf("without expiry: the record holds %s; want %s", spell(e.Value), spell(value(2)))
		}
	},
}}
