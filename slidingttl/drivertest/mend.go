package drivertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func (t *trial) mender() driver.Mender {
	m, _ := driver.As[driver.Mender](t.d)
	return m
}

// mend wants Mend to find the fault of a record that Mar wrote, and returns it.
func (t *trial) mend(key string, apply bool) string {
	fault, err := t.mender().Mend(t.ctx, key, apply)
	t.ok("Mend of a record whose meaning is plain", err)
	if fault == "" {
		t.Errorf("Mend finds nothing wrong with it")
	}
	return fault
}

// sound wants Mend to find nothing wrong with e, and to leave it as it is.
func (t *trial) sound(when, key string, e driver.Entry[Value]) {
	fault, err := t.mender().Mend(t.ctx, key, true)
	if fault != "" || err != nil {
		t.Errorf("%s: Mend returns %q, %v", when, fault, err)
	}
	t.stored(when, key, e)
}

var mendCases = []testCase{{
	name:        "mend/sound",
	explanation: "Mend must not write a record that has no fault. Otherwise mending costs a write for each record of the store.",
	needs:       []Feature{Mender, Plant},
	run: func(t *trial) {
		key, foreign := t.key("a"), t.key("b")
		t.sound("inserted", key, t.insert(key, 1, t.life(time.Hour)))
		t.sound("written by another program", foreign, t.plant(foreign, 2, driver.Life{}))
	},
}, {
	name:        "mend/mended",
	explanation: "A mended record must have the life that was meant, and its value. Otherwise repairing a store damages it.",
	needs:       []Feature{Mender},
	run: func(t *trial) {
		key, other := t.key("a"), t.key("b")
		l := t.life(time.Hour)
		t.ok("Backend.Mar", t.b.Mar(t.ctx, key, value(1), l))
		t.ok("Backend.Mar", t.b.Mar(t.ctx, other, value(2), t.later(l, time.Hour)))
		fault := t.mend(key, true)
		if another := t.mend(other, true); another != fault {
			t.Errorf("one fault has two texts: %q and %q", fault, another)
		}
		e := t.get(key)
		t.same("after Mend", e, driver.Entry[Value]{Value: value(1), Meta: driver.Meta{Life: l, Version: e.Version}})
		t.sound("mended again", key, e)
		e = t.touched("Touch of what was mended", key, e, t.later(l, time.Hour))
		t.stored("touched", key, e)
	},
}, {
	name:        "mend/dry",
	explanation: "Mend without apply must write nothing, and return what it would do, for an operator's dry run.",
	needs:       []Feature{Mender},
	run: func(t *trial) {
		key := t.key("a")
		t.ok("Backend.Mar", t.b.Mar(t.ctx, key, value(1), t.life(time.Hour)))
		fault := t.mend(key, false)
		if again := t.mend(key, false); again != fault {
			t.Errorf("asked twice it says %q and %q", fault, again)
		}
		if done := t.mend(key, true); done != fault {
			t.Errorf("it says that it would mend %q, and mends %q", fault, done)
		}
	},
}, {
	name:        "mend/doubt",
	explanation: "Mend must not guess: for a record whose life is ambiguous it returns an *InvalidError, and writes nothing.",
	needs:       []Feature{Mender, Malform},
	run: func(t *trial) {
		key := t.key("bad")
		t.ok("Backend.Malform", t.b.Malform(t.ctx, key, value(1)))
		for range 2 {
			fault, err := t.mender().Mend(t.ctx, key, true)
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("Mend of a record whose life is ambiguous: the error is %v; want a *driver.InvalidError", err)
			}
			t.quiet("the error", err)
			if fault != "" {
				t.Errorf("Mend returns an error and the fault %q", fault)
			}
		}
	},
}, {
	name:        "mend/absent",
	explanation: "Mend of an absent key is driver.ErrNotFound and creates none; of an invalid one it is an *InvalidError.",
	needs:       []Feature{Mender},
	run: func(t *trial) {
		_, err := t.mender().Mend(t.ctx, t.key("never"), true)
		t.notFound("Mend of a key never written", err)
		t.quiet("Mend of a key never written", err)
		t.absent("after Mend", t.key("never"))
		_, err = t.mender().Mend(t.ctx, "", true)
		t.invalid("Mend of an empty key", err)
	},
}, {
	name:        "mend/race",
	explanation: "If several callers mend a record at once, one does it. The others find it mended, or get a conflict.",
	needs:       []Feature{Mender},
	run: func(t *trial) {
		for range 10 {
			key := t.key("a")
			l := t.life(time.Hour)
			t.ok("Backend.Mar", t.b.Mar(t.ctx, key, value(1), l))
			var mended atomic.Int64
			t.together(8, func(int) {
				fault, err := t.mender().Mend(t.ctx, key, true)
				switch {
				case err == nil && fault != "":
					mended.Add(1)
				case err != nil && !errors.Is(err, driver.ErrConflict):
					t.Errorf("Mend: %v", err)
				}
			})
			if n := mended.Load(); n != 1 {
				t.Errorf("%d of 8 say that they have mended it", n)
			}
			if e := t.get(key); e.Life != l {
				t.Errorf("the record has %s; want %s", describe(e.Life), describe(l))
			}
		}
	},
}}
