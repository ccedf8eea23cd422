package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// touchKey calls TouchKey of the driver, which is a KeyToucher.
func (t *trial) touchKey(key string, kt driver.KeyTouch) (driver.Meta, error) {
	return t.d.(driver.KeyToucher).TouchKey(t.ctx, key, kt)
}

// keyTouch is one that a record with life l is due for: it moves the expiry by an hour.
func (t *trial) keyTouch(l driver.Life) driver.KeyTouch {
	return driver.KeyTouch{Now: t.now(), Born: l.CreatedAt, Due: l.ExpiresAt + 1, Expiry: t.at(l.ExpiresAt.Add(time.Hour))}
}

var keyTouchCases = []testCase{{
	name:        "touchkey/due",
	explanation: "A touch by key must move the expiry of a record that is due, and change nothing else: not the value, not created_at.",
	needs:       []Feature{KeyToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.advance(time.Minute)
		kt := t.keyTouch(e.Life)
		meta, err := t.touchKey(t.key("a"), kt)
		t.ok("TouchKey", err)
		if want := (driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: kt.Expiry}); meta.Life != want {
			t.Errorf("TouchKey returned %s; want %s", describe(meta.Life), describe(want))
		}
		t.stored("after TouchKey", t.key("a"), driver.Entry[Value]{Value: e.Value, Meta: meta})
		t.replaced("Replace of what TouchKey returned", t.key("a"), 2, meta, meta.Life)
	},
}, {
	name:        "touchkey/born",
	explanation: "A touch by key is only for records too young for the cap to bind: on an older one it would write past the max lifetime.",
	needs:       []Feature{KeyToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		kt := t.keyTouch(e.Life)
		kt.Born = e.CreatedAt + 1
		_, err := t.touchKey(t.key("a"), kt)
		t.conflict("TouchKey for records born a millisecond later", err, e.Meta)
		t.stored("after it", t.key("a"), e)
	},
}, {
	name:        "touchkey/not-due",
	explanation: "A touch by key must leave a record alone that keeps its promise already: a slow one would take back what a later one gave.",
	needs:       []Feature{KeyToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(2*time.Hour))
		kt := t.keyTouch(e.Life)
		kt.Due = e.ExpiresAt
		kt.Expiry = t.at(e.ExpiresAt.Add(-time.Hour))
		_, err := t.touchKey(t.key("a"), kt)
		t.conflict("TouchKey of a record that expires when it would be due", err, e.Meta)
		t.stored("after it", t.key("a"), e)
	},
}, {
	name:        "touchkey/absent",
	explanation: "A touch by key must never create a record: a session that was logged out would come back, without its data.",
	needs:       []Feature{KeyToucher},
	run: func(t *trial) {
		l := t.life(time.Hour)
		_, err := t.touchKey(t.key("never"), t.keyTouch(l))
		t.notFound("TouchKey of a key never written", err)
		t.absent("after it", t.key("never"))
		t.insert(t.key("deleted"), 1, l)
		t.ok("Delete", t.d.Delete(t.ctx, t.key("deleted")))
		_, err = t.touchKey(t.key("deleted"), t.keyTouch(l))
		t.notFound("TouchKey of a deleted record", err)
		t.absent("after it", t.key("deleted"))
	},
}, {
	name:        "touchkey/dead",
	explanation: "A touch by key must never revive a record whose expiry has come, though the store still holds it.",
	needs:       []Feature{KeyToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		kt := t.keyTouch(e.Life)
		kt.Now = e.ExpiresAt
		_, err := t.touchKey(t.key("a"), kt)
		t.notFound("TouchKey of a record whose expiry is now", err)
		t.stored("after it", t.key("a"), e)
		kt.Born = e.CreatedAt + 1
		_, err = t.touchKey(t.key("a"), kt)
		t.notFound("TouchKey of a dead record that it would not be for", err)
		kt = t.keyTouch(e.Life)
		kt.Now = e.ExpiresAt - 1
		_, err = t.touchKey(t.key("a"), kt)
		t.ok("TouchKey a millisecond before the expiry", err)
	},
}, {
	name:        "touchkey/foreign",
	explanation: "A record without created_at or expiry has no place in the comparison: it must come back in a conflict, to be adopted.",
	needs:       []Feature{KeyToucher, Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		kt := t.keyTouch(l)
		kt.Born = 0
		for name, l := range map[string]driver.Life{
			"no created_at":          {ExpiresAt: l.ExpiresAt},
			"neither":                {},
			"no expiry":              {CreatedAt: l.CreatedAt},
			"no created_at, not due": {ExpiresAt: t.at(l.ExpiresAt.Add(time.Hour))},
		} {
			e := t.plant(t.key(name), 1, l)
			_, err := t.touchKey(t.key(name), kt)
			t.conflict("TouchKey of a record with "+name, err, e.Meta)
			t.stored("after it", t.key(name), e)
		}
	},
}, {
	name:        "touchkey/race",
	explanation: "Of concurrent touches by key exactly one finds the record due; and an overwrite that runs beside them keeps its value.",
	needs:       []Feature{KeyToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		for range rounds {
			kt := t.keyTouch(e.Life)
			t.winner("TouchKeys", t.key("a"), func(int) (driver.Entry[Value], error) {
				meta, err := t.touchKey(t.key("a"), kt)
				return driver.Entry[Value]{Value: e.Value, Meta: meta}, err
			})
			e = t.get(t.key("a"))
		}
		t.together(2, func(i int) {
			for range rounds {
				if i == 0 {
					t.countUp(t.key("a"))
				} else if _, err := t.touchKey(t.key("a"), t.keyTouch(t.get(t.key("a")).Life)); err != nil {
					t.Errorf("TouchKey that races overwrites: %v", err)
				}
			}
		})
		if counted := t.get(t.key("a")).Value.Count - e.Value.Count; counted != rounds {
			t.Errorf("%d updates beside touches by key counted up to %d", rounds, counted)
		}
	},
}}
