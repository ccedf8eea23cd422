package drivertest

import "time"

var storeRetireCases = []testCase{{
	name:        "store/retire",
	explanation: "A record that is retired must be dead at once, with the life it had, and make way for the next: an event that was ended would go on.",
	run: func(t *trial) {
		s, key := t.store(exact), t.key("a")
		t.notFound("Retire of an absent key", s.Retire(t.ctx, key))
		t.upsert(s, key, 1)
		t.advance(time.Minute)
		t.ok("Retire", s.Retire(t.ctx, key))
		t.dead("after Retire", s, key)
		t.notFound("Retire of a dead record", s.Retire(t.ctx, key))
		t.advance(time.Minute)
		t.upsert(s, key, 2)
		t.reads("a new life after Retire", s, key, 2)
		t.has("a new life after Retire", key, t.now(), exact.Deadline(t.now(), t.now()))
	},
}}
