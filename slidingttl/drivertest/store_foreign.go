package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// foreign plants a record with an expiry and one without, and returns their keys.
func (t *trial) foreign(name string) []string {
	keys := []string{t.key(name + " expires"), t.key(name + " stays")}
	t.plant(keys[0], 1, driver.Life{ExpiresAt: t.at(t.now().Add(10 * time.Minute))})
	t.plant(keys[1], 1, driver.Life{})
	return keys
}

var storeForeignCases = []testCase{{
	name:        "store/foreign-read-only",
	explanation: "Promise 10: a store that only reads other programs' records never writes to them.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		s := t.open(t.d, exact, slidingttl.Options[Value]{Foreign: slidingttl.ReadOnly})
		for _, key := range t.foreign("a") {
			e := t.get(key)
			t.reads("a record without created_at", s, key, 1)
			t.refusesWrites(s, key)
			t.stored("after calls that must write nothing", key, e)
		}
	},
}, {
	name:        "store/foreign-reject",
	explanation: "Promise 10: a store that rejects other programs' records neither reads nor writes them.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		s := t.open(t.d, exact, slidingttl.Options[Value]{Foreign: slidingttl.Reject})
		for _, key := range t.foreign("a") {
			e := t.get(key)
			if _, err := s.Get(t.ctx, key); !errors.Is(err, slidingttl.ErrForeign) {
				t.Errorf("Get of a record without created_at: the error is %v; want %v", err, slidingttl.ErrForeign)
			}
			if found, err := s.GetMulti(t.ctx, []string{key}); !errors.Is(err, slidingttl.ErrForeign) || len(found) > 0 {
				t.Errorf("GetMulti of a record without created_at: %d records and the error %v; want none and %v", len(found), err, slidingttl.ErrForeign)
			}
			t.refusesWrites(s, key)
			t.stored("after calls that must write nothing", key, e)
		}
	},
}, {
	name:        "store/adopts",
	explanation: "Promise 10: a record from before this library is adopted by its first access, of any kind, and has a cap from then on.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		s := t.store(exact)
		for name, access := range map[string]func(key string) error{
			"Get":      func(key string) error { _, err := s.Get(t.ctx, key); return err },
			"GetMulti": func(key string) error { _, err := s.GetMulti(t.ctx, []string{key}); return err },
			"Touch":    func(key string) error { _, err := s.Touch(t.ctx, key); return err },
			"Upsert":   func(key string) error { return s.Upsert(t.ctx, key, value(1)) },
			"Update": func(key string) error {
				_, err := s.Update(t.ctx, key, func(v Value) (Value, error) { return v, nil })
				return err
			},
		} {
			for _, key := range t.foreign(name) {
				t.ok(name+" of a record without created_at", access(key))
				t.has("after "+name, key, t.now(), t.now().Add(exact.IdleGrace))
				t.reads("after "+name, s, key, 1)
			}
		}
		for _, key := range t.foreign("Peek") {
			e := t.get(key)
			if _, err := s.Peek(t.ctx, key); err != nil {
				t.Errorf("Peek of a record without created_at: %v", err)
			}
			t.stored("after Peek", key, e)
			t.reads("a read that adopts", s, key, 1)
		}
		c := t.now()
		key := t.key("Peek stays")
		for t.now().Add(20*time.Minute) < exact.Cap(c) {
			t.advance(20 * time.Minute)
			t.reads("a read of an adopted record", s, key, 1)
			t.has("after it", key, c, exact.Deadline(c, t.now()))
		}
		t.clock.set(exact.Cap(c).Time())
		t.dead("an adopted record at its cap", s, key)
	},
}, {
	name:        "store/foreign-dead",
	explanation: "Promises 5 and 10: a record that has expired is not adopted, whichever program wrote it.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		s, key := t.store(exact), t.foreign("a")[0]
		t.advance(10*time.Minute + t.step)
		t.dead("after the expiry that another program gave it", s, key)
		t.upsert(s, key, 2)
		t.has("after a new life has begun", key, t.now(), t.now().Add(exact.IdleGrace))
	},
}}

// refusesWrites wants s, which adopts nothing, to leave the record under key alone.
func (t *trial) refusesWrites(s *slidingttl.Store[Value], key string) {
	_, touch := s.Touch(t.ctx, key)
	_, update := s.Update(t.ctx, key, func(v Value) (Value, error) { return v, nil })
	for call, err := range map[string]error{"Touch": touch, "Update": update, "Upsert": s.Upsert(t.ctx, key, value(2))} {
		if !errors.Is(err, slidingttl.ErrForeign) {
			t.Errorf("%s of a record without created_at: the error is %v; want %v", call, err, slidingttl.ErrForeign)
		}
	}
}

var storeErrorCases = []testCase{{
	name:        "store/bad-key",
	explanation: "Promises 11 and 12: a key that the store cannot take is an error that names the rule and not the key, in every call.",
	run: func(t *trial) {
		s := t.store(exact)
		t.eachCall(s, "", func(call string, err error) { t.invalid("Store."+call+" of an empty key", err) })
		if t.b.MaxKey == 0 {
			return
		}
		over := t.prefix
		for len(over) <= t.b.MaxKey {
			over += "k"
		}
		t.eachCall(s, over, func(call string, err error) {
			t.invalid("Store."+call+" of a key over the limit", err)
			t.quiet("Store."+call+" of a key over the limit", err)
		})
	},
}, {
	name:        "store/down",
	explanation: "When the backend fails, its own error is reachable through the store's, in every call, and holds no key. When the backend works again, the records are there.",
	needs:       []Feature{Fail},
	run: func(t *trial) {
		s, key := t.store(exact), t.key("a")
		t.upsert(s, key, 1)
		e := t.get(key)
		t.advance(time.Minute)
		mend := t.b.Fail()
		t.cleanup(mend)
		t.eachCall(s, key, func(call string, err error) {
			if !t.b.Own(err) || errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Store.%s while the backend fails: %v; want the backend's own error", call, err)
			}
			var wrapped *slidingttl.Error
			if !errors.As(err, &wrapped) {
				t.Errorf("Store.%s while the backend fails: %v is no *slidingttl.Error", call, err)
			}
			t.quiet("Store."+call+" while the backend fails", err)
		})
		mend()
		t.stored("after the backend is mended", key, e)
		t.reads("after the backend is mended", s, key, 1)
		t.has("after the backend is mended", key, e.CreatedAt, exact.Deadline(e.CreatedAt, t.now()))
	},
}, {
	name:        "store/hangs",
	explanation: "When the backend does not answer, each call waits no longer than its own context, and so does Close: no caller is held up by a touch that hangs. The driver's own call returns then too.",
	needs:       []Feature{Hang},
	run: func(t *trial) {
		spy := t.spied()
		ended := make(chan slidingttl.TouchEvent, 1)
		s, err := slidingttl.New(spy, exact, &slidingttl.Options[Value]{Now: t.clock.Now, Observer: &slidingttl.Observer{
			Touch: func(_ context.Context, e slidingttl.TouchEvent) { ended <- e },
		}})
		t.ok("slidingttl.New", err)
		key := t.key("a")
		t.upsert(s, key, 1)
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		ctx, cancel := context.WithCancel(t.ctx)
		defer cancel()
		returned := make(chan error, 2)
		go func() {
			v, err := s.Get(ctx, key) // reads, then hangs in its touch
			if err == nil && !v.equal(value(1)) {
				err = errors.New("it returns " + spell(v))
			}
			returned <- err
			returned <- s.Close(ctx)
		}()
		touch.arrives()
		release := t.b.Hang()
		t.cleanup(release)
		touch.release()
		time.AfterFunc(300*time.Millisecond, cancel)
		<-ctx.Done()
		late := time.After(2 * soon)
		for _, call := range []string{"Get", "Close"} {
			select {
			case err = <-returned:
			case <-late:
				t.Errorf("Store.%s had not returned %v after its context ended", call, 2*soon)
				release()
				err = <-returned
				late = nil
			}
			var drain *slidingttl.DrainError
			switch {
			case call == "Get" && err != nil:
				t.Errorf("a read whose touch hangs: %v; want the value that was read", err)
			case call == "Close" && err != nil && !errors.As(err, &drain):
				t.Errorf("Close with a touch that hangs: %v; want a *slidingttl.DrainError, or nil if it was done", err)
			}
		}
		select {
		case <-ended:
		case <-late:
			t.Errorf("Touch had not returned %v after its context ended", 2*soon)
			release()
			<-ended
		}
	},
}}

// eachCall makes every call of s, with key, that touches the backend.
func (t *trial) eachCall(s *slidingttl.Store[Value], key string, check func(call string, err error)) {
	_, err := s.Get(t.ctx, key)
	check("Get", err)
	_, err = s.Peek(t.ctx, key)
	check("Peek", err)
	_, err = s.GetMulti(t.ctx, []string{key})
	check("GetMulti", err)
	_, err = s.Touch(t.ctx, key)
	check("Touch", err)
	_, err = s.Update(t.ctx, key, func(v Value) (Value, error) { return v, nil })
	check("Update", err)
	check("Insert", s.Insert(t.ctx, key, value(9)))
	check("Upsert", s.Upsert(t.ctx, key, value(9)))
	check("Delete", s.Delete(t.ctx, key))
}
