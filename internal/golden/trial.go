package golden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// trial is the test of one record.
type trial struct {
	*testing.T
	Store
	Record
	raw json.RawMessage
}

func (t *trial) run() {
	for name, act := range map[string]func(t *trial, was driver.Entry[Value]){
		"touch": (*trial).touch, "replace": (*trial).replace, "insert": (*trial).insert,
		"get by a store": (*trial).storeGet, "upsert by a store": (*trial).storeUpsert,
	} {
		t.Run(name, func(inner *testing.T) {
			t := &trial{inner, t.Store, t.Record, t.raw}
			if err := t.Plant(t.raw); err != nil {
				t.Fatal(err)
			}
			act(t, t.want("as it was written", t.Value, t.life(t.Store)))
		})
	}
}

func (t *trial) now() driver.Instant { return driver.Floor(t.Store.Now()) }

func (t *trial) dead() bool { return t.Expires == Died }

// want wants the driver to read v and life, and returns what it reads.
func (t *trial) want(when string, v Value, life driver.Life) driver.Entry[Value] {
	t.Helper()
	e, err := t.Driver.Get(t.Context(), t.Name)
	if err != nil {
		t.Fatalf("%s: Get: %v", when, err)
	}
	if !reflect.DeepEqual(e.Value, v) {
		t.Errorf("%s: Get has %+v, want %+v", when, e.Value, v)
	}
	if e.Life != life {
		t.Errorf("%s: Get has the life %s, want %s", when, describe(e.Life), describe(life))
	}
	return e
}

func describe(l driver.Life) string {
	return fmt.Sprintf("from %v until %v", l.CreatedAt.Time(), l.ExpiresAt.Time())
}

func (t *trial) touch(was driver.Entry[Value]) {
	longer := driver.Life{CreatedAt: Written, ExpiresAt: t.rounded(Extended.Add(time.Hour))}
	_, err := t.Driver.Touch(t.Context(), t.Name, was.Meta, longer, t.now())
	if t.refused("Touch", err) {
		return
	}
	t.want("after Touch", was.Value, longer)
}

func (t *trial) replace(was driver.Entry[Value]) {
	longer := driver.Life{CreatedAt: Written, ExpiresAt: t.rounded(Extended.Add(time.Hour))}
	v := value(3)
	version, err := t.Driver.Replace(t.Context(), t.Name, v, was.Meta, longer, t.now())
	if t.refused("Replace", err) {
		return
	}
	if e := t.want("after Replace", v, longer); e.Version != version {
		t.Errorf("after Replace Get has version %d, want %d", e.Version, version)
	}
	_, err = t.Driver.Replace(t.Context(), t.Name, Second, was.Meta, longer, t.now())
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("Replace of what was replaced: %v; want a conflict", err)
	}
}

// refused wants a write over a dead record to be refused.
func (t *trial) refused(call string, err error) bool {
	t.Helper()
	if t.dead() {
		if !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%s of a dead record: %v; want ErrNotFound", call, err)
		}
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return false
}

func (t *trial) insert(was driver.Entry[Value]) {
	now := t.now()
	life := driver.Life{CreatedAt: now, ExpiresAt: t.rounded(Extended)}
	v := value(3)
	_, err := t.Driver.Insert(t.Context(), t.Name, v, life, now)
	if t.dead() {
		if err != nil {
			t.Fatalf("Insert over a dead record: %v", err)
		}
		t.want("after Insert", v, life)
		return
	}
	conflict, ok := errors.AsType[*driver.ConflictError](err)
	if !ok || conflict.Found.Life != was.Life {
		t.Fatalf("Insert over a live record: %v; want a conflict with %s", err, describe(was.Life))
	}
	t.want("after an Insert that was refused", was.Value, was.Life)
}

// policy gives every live record a later expiry, except for one that never expires.
var policy = slidingttl.Policy{IdleGrace: 30 * 365 * 24 * time.Hour, MaxLifetime: 40 * 365 * 24 * time.Hour}

func (t *trial) store() *slidingttl.Store[Value] {
	s, err := slidingttl.New(t.Driver, policy, &slidingttl.Options[Value]{Now: t.Store.Now, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func (t *trial) storeGet(was driver.Entry[Value]) {
	v, err := t.store().Get(t.Context(), t.Name)
	if t.dead() {
		if !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("Store.Get of a dead record: %v; want ErrNotFound", err)
		}
		return
	}
	if err != nil || !reflect.DeepEqual(v, was.Value) {
		t.Fatalf("Store.Get: %+v, %v; want %+v", v, err, was.Value)
	}
	t.promised("Store.Get", was.Value, Written)
}

func (t *trial) storeUpsert(driver.Entry[Value]) {
	v, before := value(3), t.now()
	if err := t.store().Upsert(t.Context(), t.Name, v); err != nil {
		t.Fatalf("Store.Upsert: %v", err)
	}
	if t.dead() {
		t.promised("Store.Upsert over a dead record", v, before)
		return
	}
	t.promised("Store.Upsert", v, Written)
}

// promised wants the record to have v, to be no older than created, and to live at least until
// the deadline of an access a moment ago.
func (t *trial) promised(after string, v Value, created driver.Instant) {
	t.Helper()
	e, err := t.Driver.Get(t.Context(), t.Name)
	if err != nil {
		t.Fatalf("after %s: Get: %v", after, err)
	}
	if !reflect.DeepEqual(e.Value, v) {
		t.Errorf("after %s: Get has %+v, want %+v", after, e.Value, v)
	}
	if created == Written && e.CreatedAt != created || e.CreatedAt < created {
		t.Errorf("after %s it was created at %v, want %v", after, e.CreatedAt.Time(), created.Time())
	}
	if least := t.now().Add(policy.IdleGrace - time.Hour); e.ExpiresAt < least || e.ExpiresAt > least.Add(2*time.Hour) {
		t.Errorf("after %s it expires at %v, want about %v", after, e.ExpiresAt.Time(), least.Add(time.Hour).Time())
	}
}
