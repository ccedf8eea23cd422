package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var storeRetireCases = []testCase{{
	name:        "store/retire",
	explanation: "A retired record must be dead at once, with the life it had, and must not block the next one. Otherwise an ended event goes on.",
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
}, {
	name:        "store/replaced",
	explanation: "A dead record that is still stored, and over which a write begins a new life, must be counted, by what it died of, and no other: whoever harvests the dead would not know what no harvest can have.",
	needs:       []Feature{Retain, Replaced},
	run: func(t *trial) {
		t.retaining(time.Hour)
		for _, c := range []struct {
			of   string
			p    slidingttl.Policy
			want slidingttl.Stats
		}{
			{"idleness", slidingttl.Policy{IdleGrace: 3 * t.unit, MaxLifetime: time.Hour}, slidingttl.Stats{ReplacedIdle: 2}},
			{"age", slidingttl.Policy{IdleGrace: 3 * t.unit, MaxLifetime: 3 * t.unit}, slidingttl.Stats{ReplacedOfAge: 2}},
		} {
			s, insert, upsert := t.store(c.p), t.key(c.of+"-insert"), t.key(c.of+"-upsert")
			t.upsert(s, insert, 1)
			t.upsert(s, upsert, 1)
			t.until(t.get(upsert).ExpiresAt)
			t.ok("Insert over what died of "+c.of, s.Insert(t.ctx, insert, value(2)))
			t.ok("Upsert over what died of "+c.of, s.Upsert(t.ctx, upsert, value(2)))
			t.ok("Upsert over a live record", s.Upsert(t.ctx, upsert, value(3)))
			if has[driver.Local[Value]](t.b) {
				c.want = slidingttl.Stats{} // a store in memory hands over what it replaces
			}
			if n := s.Stats(); n.ReplacedIdle != c.want.ReplacedIdle || n.ReplacedOfAge != c.want.ReplacedOfAge {
				t.Errorf("of two that died of %s Stats tell %d replaced that died of idleness and %d of age; want %d and %d",
					c.of, n.ReplacedIdle, n.ReplacedOfAge, c.want.ReplacedIdle, c.want.ReplacedOfAge)
			}
		}
	},
}}
