// Package golden holds today's drivers to records that a release before wrote: each driver has
// them in its testdata, as they stood in its store. README.md says how they were made.
package golden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// Release is the commit whose drivers wrote the records, and the directory in testdata.
const Release = "4e58a98"

// Value is the type of their values.
type Value = drivertest.Value

// Retain is how long the dead are held where a record's Retained says so.
const Retain = 40 * 365 * 24 * time.Hour

// Written is when the records were created. They expire at Expires, Extended where they were
// touched, and at Died where they are dead. These are so far apart that stores whose clock
// is the machine's can hold them: an instant after Extended plus Retain is beyond Couchbase.
var (
	Written  = driver.Floor(time.Date(2025, 11, 12, 13, 14, 15, 678e6, time.UTC))
	Died     = Written.Add(10 * time.Minute)
	Expires  = driver.Floor(time.Date(2049, 12, 31, 23, 59, 58, 901e6, time.UTC))
	Extended = driver.Floor(time.Date(2050, 1, 31, 23, 59, 58, 901e6, time.UTC))
)

// First is the value of each record, Second that with which some were overwritten.
var (
	First  = value(1)
	Second = value(2)
)

func value(n int64) Value {
	return Value{
		Text: fmt.Sprintf("value %d, \"quoted\", déjà-vu, 日本語, 🙂, <&>\n", n), Count: 1<<52 + n, Ratio: 0.1, Flag: true,
		Bytes: []byte{0, 0xff, '"'}, List: []string{"a", "", "b"}, Map: map[string]string{"k": "v", "K": ""},
		When:   time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.UTC),
		Nested: drivertest.Nested{Name: "inner", Level: -1},
	}
}

// Record is one that was written. Its key is its name.
type Record struct {
	Name     string
	Value    Value
	Expires  driver.Instant // before the store's rounding
	Retained bool           // the driver that wrote it last had Retain
}

// Records are all of them; README.md says by which calls they came about.
var Records = []Record{
	{"inserted", First, Expires, false},
	{"touched", First, Extended, false},
	{"replaced", Second, Extended, false},
	{"upserted", Second, Extended, false},
	{"adopted", First, Extended, false},
	{"endless", First, 0, false},
	{"retained", First, Expires, true},
	{"retained-touched", First, Extended, true},
	{"retained-replaced", Second, Extended, true},
	{"retained-once", First, Extended, false},
	{"dead", First, Died, true},
	{"lowered", First, Died, true},
	{"revived", Second, Expires, true},
}

// Store is one store and a driver of today's over it.
type Store struct {
	Driver driver.Driver[Value]
	Now    func() time.Time                // the store's time. Nil: time.Now
	Plant  func(raw json.RawMessage) error // writes what testdata has, over what is there
}

// Run has drivers of today's read, touch and overwrite the records of each layout in testdata.
// open is called with the layout's name, once for each record and retention.
func Run(t *testing.T, open func(t *testing.T, layout string, retain time.Duration) Store) {
	files, err := filepath.Glob(filepath.Join("testdata", Release, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records of %s in testdata: %v", Release, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var records map[string]json.RawMessage
		if err := json.Unmarshal(text, &records); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		layout := filepath.Base(file[:len(file)-len(".json")])
		for retention, retain := range map[string]time.Duration{"plain": 0, "retaining": Retain} {
			t.Run(layout+"/"+retention, func(t *testing.T) {
				s := open(t, layout, retain)
				if s.Now == nil {
					s.Now = time.Now
				}
				for _, r := range Records {
					if err := s.Plant(records[r.Name]); err != nil {
						t.Fatalf("planting %s of %s: %v", r.Name, file, err)
					}
				}
				s.scan(t)
				for _, r := range Records {
					t.Run(r.Name, func(t *testing.T) { (&trial{t, s, r, records[r.Name]}).run() })
				}
			})
		}
	}
}

// scan wants a scan to have each record as it was written.
func (s Store) scan(t *testing.T) {
	scanner, ok := driver.As[driver.Scanner](s.Driver)
	if !ok {
		t.Fatal("the driver is no driver.Scanner")
	}
	cursors, err := scanner.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]driver.Scanned)
	for _, next := range cursors {
		for next != "" {
			page, err := scanner.Scan(t.Context(), next, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				found[r.Key] = r
			}
			next = page.Next
		}
	}
	for _, r := range Records {
		switch got, ok := found[r.Name]; {
		case !ok:
			t.Errorf("%s is not in a scan", r.Name)
		case got.Life != r.life(s) || got.Fault != "" || got.Problem != nil:
			t.Errorf("%s has in a scan the life %s (%q, %v), want %s", r.Name, describe(got.Life), got.Fault, got.Problem, describe(r.life(s)))
		}
	}
}

// life is that of r in s.
func (r Record) life(s Store) driver.Life {
	return driver.Life{CreatedAt: Written, ExpiresAt: s.rounded(r.Expires)}
}

func (s Store) rounded(at driver.Instant) driver.Instant {
	step := driver.Instant(s.Driver.Resolution().Milliseconds())
	return (at + step - 1) / step * step
}

// trial is what is done to one record.
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

// refused wants a write over what is dead to be refused.
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

// policy gives every record that lives a later expiry, but for what never expires.
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

// promised wants the record to have v, to be no older than created, and to live as long as
// an access a moment ago was promised.
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
