package drivertest

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// replaced wants Replace of was, under key, to land at now.
func (t *trial) replaced(when, key string, n int, was driver.Meta, life driver.Life) driver.Entry[Value] {
	version, err := t.d.Replace(t.ctx, key, value(n), was, life, t.now())
	t.ok(when, err)
	e := driver.Entry[Value]{Value: value(n), Meta: driver.Meta{Life: life, Version: version}}
	t.stored(when, key, e)
	return e
}

// apart has the differences in created_at between generations that a write must distinguish.
var apart = []time.Duration{time.Millisecond, -time.Millisecond, time.Second, day}

// regenerated makes a record under key with life first, deletes it, and makes
// another with life then.
func (t *trial) regenerated(key string, first, then driver.Life) (old, next driver.Entry[Value]) {
	old = t.insert(key, 1, first)
	t.ok("Delete", t.d.Delete(t.ctx, key))
	return old, t.insert(key, 2, then)
}

var replaceCases = []testCase{{
	name:        "replace/live",
	explanation: "Replace must write the value and the life it is given, created_at included. Otherwise every save restarts or loses the max lifetime.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.advance(10 * time.Minute)
		next := t.replaced("Replace with a later expiry", t.key("a"), 2, e.Meta, t.later(e.Life, 10*time.Minute))
		t.replaced("Replace from what Replace returned", t.key("a"), 3, next.Meta, t.later(next.Life, 10*time.Minute))
	},
}, {
	name:        "replace/earlier-expiry",
	explanation: "A driver has no policy: it writes an earlier expiry as given, since the policy may have become tighter.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(2*time.Hour))
		t.replaced("Replace with an earlier expiry", t.key("a"), 2, e.Meta, t.later(e.Life, -time.Hour))
	},
}, {
	name:        "replace/new-generation",
	explanation: "A different created_at starts a new generation in the record's place, for instance over a record past its cap: it must be written.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.advance(time.Minute)
		t.replaced("Replace with another created_at", t.key("a"), 2, e.Meta, t.life(time.Hour))
	},
}, {
	name:        "replace/version",
	explanation: "Every write of a value must change the version, even one that changes nothing else. Otherwise a second client does not notice that the value it read was replaced, and overwrites it.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		version, err := t.d.Replace(t.ctx, t.key("a"), value(1), e.Meta, e.Life, t.now())
		t.ok("Replace with the same value and life", err)
		if version == e.Version {
			t.Errorf("Replace with the same value and life left version %d", version)
		}
	},
}, {
	name:        "replace/versions",
	explanation: "A key must not get a version twice, and all of a version counts. Otherwise a client whose version has come round overwrites what it has not read.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		had := map[driver.Version]bool{e.Version: true}
		for n := range 300 {
			version, err := t.d.Replace(t.ctx, t.key("a"), value(1), e.Meta, e.Life, t.now())
			t.ok("Replace", err)
			if had[version] {
				t.Fatalf("write %d gave the key a version that it has had", n)
			}
			had[version], e.Version = true, version
		}
		for _, bit := range []int{8, 16, 31, 32, 48} {
			other := e.Meta
			other.Version ^= 1 << bit
			_, err := t.d.Replace(t.ctx, t.key("a"), value(2), other, e.Life, t.now())
			t.conflict(fmt.Sprintf("Replace of a version that differs in bit %d", bit), err, e.Meta)
			_, err = t.d.Touch(t.ctx, t.key("a"), other, t.later(e.Life, time.Hour), t.now())
			t.conflict(fmt.Sprintf("Touch of a version that differs in bit %d", bit), err, e.Meta)
		}
		t.stored("after writes planned for other versions", t.key("a"), e)
	},
}, {
	name:        "replace/absent",
	explanation: "Replace must not create a record. Otherwise an update after a logout logs the user in again.",
	run: func(t *trial) {
		_, err := t.d.Replace(t.ctx, t.key("never"), value(1), driver.Meta{Life: t.life(time.Hour), Version: 1}, t.life(time.Hour), t.now())
		t.notFound("Replace of a key never written", err)
		t.absent("after Replace of a key never written", t.key("never"))

		e := t.insert(t.key("deleted"), 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("deleted")))
		_, err = t.d.Replace(t.ctx, t.key("deleted"), value(2), e.Meta, t.later(e.Life, time.Hour), t.now())
		t.notFound("Replace of a deleted record", err)
		t.absent("after Replace of a deleted record", t.key("deleted"))
	},
}, {
	name:        "replace/dead",
	explanation: "Replace must not revive a record whose expiry has come, even if the store still holds it. Otherwise an idle session comes back, with its old created_at.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		_, err := t.d.Replace(t.ctx, t.key("a"), value(2), e.Meta, t.later(e.Life, time.Hour), e.ExpiresAt)
		t.notFound("Replace of a record whose expiry is now", err)
		t.stored("after Replace of a dead record", t.key("a"), e)
		_, err = t.d.Replace(t.ctx, t.key("a"), value(2), e.Meta, t.later(e.Life, time.Hour), e.ExpiresAt-1)
		t.ok("Replace a millisecond before the expiry", err)
	},
}, {
	name:        "replace/dead-other",
	explanation: "A dead record is no conflict: like an absent one it must give ErrNotFound, or a caller plans its next write on it.",
	run: func(t *trial) {
		old, dead := t.regenerated(t.key("a"), t.life(3*time.Hour), t.life(time.Hour))
		_, err := t.d.Replace(t.ctx, t.key("a"), value(3), old.Meta, t.later(old.Life, time.Hour), dead.ExpiresAt)
		t.notFound("Replace where another generation is stored, and dead", err)
		t.stored("after it", t.key("a"), dead)
	},
}, {
	name:        "replace/other-version",
	explanation: "Replace must land only on the version that was read: otherwise of two concurrent updates one is lost without an error.",
	run: func(t *trial) {
		first := t.insert(t.key("a"), 1, t.life(time.Hour))
		second := t.replaced("Replace", t.key("a"), 2, first.Meta, first.Life)
		_, err := t.d.Replace(t.ctx, t.key("a"), value(3), first.Meta, first.Life, t.now())
		t.conflict("Replace of a version that was overwritten", err, second.Meta)
		t.stored("after it", t.key("a"), second)
		t.replaced("Replace of what the conflict found", t.key("a"), 3, second.Meta, second.Life)
	},
}, {
	name:        "replace/other-expiry",
	explanation: "Replace must land only if the expiry is still the one it was planned from: otherwise an update undoes a touch that came in between, and the record dies early.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		touched := t.touched("Touch", t.key("a"), e, t.later(e.Life, time.Hour))
		_, err := t.d.Replace(t.ctx, t.key("a"), value(2), e.Meta, e.Life, t.now())
		t.conflict("Replace planned from the expiry before a touch", err, touched.Meta)
		t.stored("after it", t.key("a"), touched)
		t.replaced("Replace of what the conflict found", t.key("a"), 2, touched.Meta, touched.Life)
	},
}, {
	name:        "replace/other-generation",
	explanation: "Replace must land only on the generation it was planned for: a key that was deleted and created again holds another record, even with the same version and expiry.",
	run: func(t *trial) {
		for _, by := range apart {
			key := t.key(by.String())
			l := t.life(time.Hour)
			old, next := t.regenerated(key, driver.Life{CreatedAt: l.CreatedAt.Add(-by), ExpiresAt: l.ExpiresAt}, l)
			_, err := t.d.Replace(t.ctx, key, value(3), old.Meta, old.Life, t.now())
			t.conflict("Replace planned for a generation older by "+by.String(), err, next.Meta)
			t.stored("after it", key, next)
		}
	},
}, {
	name:        "replace/foreign",
	explanation: "Replace must accept a record without created_at, or an update can never adopt it.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = 0
		e := t.plant(t.key("expires"), 1, l)
		t.replaced("Replace of a record without created_at", t.key("expires"), 2, e.Meta, t.life(time.Hour))
		e = t.plant(t.key("stays"), 1, driver.Life{})
		t.replaced("Replace of a record without created_at and expiry", t.key("stays"), 2, e.Meta, t.life(time.Hour))
	},
}, {
	name:        "replace/foreign-overwrite",
	explanation: "A record that another program has overwritten is no longer the one that was read. Replace must not land on it, and must return it unchanged.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		planted := t.plant(t.key("a"), 2, driver.Life{ExpiresAt: e.ExpiresAt})
		_, err := t.d.Replace(t.ctx, t.key("a"), value(3), e.Meta, t.later(e.Life, time.Hour), t.now())
		t.conflict("Replace of a record that another program has overwritten", err, planted.Meta)
		t.stored("after it", t.key("a"), planted)
	},
}}
