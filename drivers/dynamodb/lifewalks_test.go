package dynamodb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	verdicts "github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Adopt gives a record a life of its own, and Undo the item back that was there, unless it was touched.
func TestLifeTableUndo(t *testing.T) {
	tbl := open[session](t, apartly())
	clock := handsAt(base)
	expires := number(itoa(base.Add(time.Hour) / 1000))
	foreign := attrs{"user": text("ann"), "ttl": expires}
	for _, key := range []string{"untouched", "touched"} {
		tbl.put(t, key, foreign)
	}
	was := tbl.raw(t, "untouched")
	write := upkeep.WriteOptions{Options: upkeep.Options{Now: clock.Now}, Apply: true}
	var mu sync.Mutex // guards changes
	var changes bytes.Buffer
	adopted, err := upkeep.Adopt(t.Context(), tbl.Driver, policy, &upkeep.AdoptOptions{WriteOptions: write, Undo: func(c upkeep.Change) error {
		mu.Lock()
		defer mu.Unlock()
		return json.NewEncoder(&changes).Encode(c)
	}})
	if err != nil || adopted.Counts["adopted"] != 2 {
		t.Fatalf("%+v, %v", adopted, err)
	}
	if item := tbl.raw(t, "untouched"); item[retainedName] == nil || tbl.lifeItemOf(t, "untouched") != nil {
		t.Errorf("adopted, the item is %v", item)
	}
	clock.forward(10 * time.Minute)
	s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now})
	if _, err := s.Get(t.Context(), "touched"); err != nil {
		t.Fatal(err)
	}
	value := tbl.raw(t, "touched")
	undone, err := upkeep.Undo(t.Context(), tbl.Driver, bytes.NewReader(changes.Bytes()), &write)
	if err != nil || undone.Counts["undone"] != 1 || undone.Counts["changed"] != 1 {
		t.Fatalf("%+v, %v", undone, err)
	}
	if item := tbl.raw(t, "untouched"); !reflect.DeepEqual(item, was) {
		t.Errorf("taken back, the item is %v; it was %v", item, was)
	}
	if item := tbl.raw(t, "touched"); !reflect.DeepEqual(item, value) {
		t.Errorf("touched since, the item is %v; it was %v", item, value)
	}
	// What was taken back is adopted again, with a life of its own.
	if _, err := s.Get(t.Context(), "untouched"); err != nil {
		t.Fatal(err)
	}
	clock.forward(20 * time.Minute)
	if _, err := s.Get(t.Context(), "untouched"); err != nil || tbl.lifeItemOf(t, "untouched") == nil {
		t.Errorf("adopted again, it has the life item %v; %v", tbl.lifeItemOf(t, "untouched"), err)
	}
}

// Walks know a touched record for alive after its value's expiry, for dead after the true one, and date
// the death by that. The record is told to an archive, to History, and removed by nobody before.
func TestLifeTableWalks(t *testing.T) {
	opts := apartly()
	opts.Retain = 2 * time.Hour
	tbl := open[session](t, opts)
	clock := handsAt(base)
	now := func() driver.Instant { return driver.Floor(clock.Now()) }
	s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now})
	for _, key := range []string{"k", "retired", "never touched"} {
		if err := s.Insert(t.Context(), key, session{User: key}); err != nil {
			t.Fatal(err)
		}
	}
	clock.forward(20 * time.Minute)
	for _, key := range []string{"k", "retired"} {
		if _, err := s.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	expires := tbl.mustGet(t, "k").ExpiresAt
	clock.forward(25 * time.Minute) // the values' own expiry has passed

	walk := upkeep.Options{Now: clock.Now}
	states := func() map[string]verdicts.State {
		t.Helper()
		var mu sync.Mutex // guards seen
		seen := map[string]verdicts.State{}
		if _, err := survey.Audit(t.Context(), tbl.Driver, policy, &survey.LookOptions{Options: walk, See: func(state verdicts.State, r *driver.Scanned) {
			mu.Lock()
			defer mu.Unlock()
			seen[r.Key] = state
		}}); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if got, want := states(), (map[string]verdicts.State{"k": verdicts.Slides, "retired": verdicts.Slides, "never touched": verdicts.Retained}); !reflect.DeepEqual(got, want) {
		t.Errorf("an audit sees %v; want %v", got, want)
	}
	dying, err := survey.Dying(t.Context(), tbl.Driver, time.Hour, &survey.DyingOptions{Options: walk})
	if err != nil || len(dying.Dying) != 2 || driver.Floor(dying.Dying[0].ExpiresAt) != expires {
		t.Errorf("dying are %+v, %v; want k and retired at %v", dying, err, expires.Time())
	}
	reap := &upkeep.ReapOptions{WriteOptions: upkeep.WriteOptions{Options: walk, Apply: true}, Expired: true, Grace: time.Minute}
	if r, err := upkeep.Reap(t.Context(), tbl.Driver, policy, reap); err != nil || r.Counts["expired"] != 0 || r.Counts["alive"] != 2 || r.Counts["retained"] != 1 {
		t.Errorf("of the living and the retained it removes %+v, %v", r, err)
	}

	retire := &upkeep.RetireOptions{WriteOptions: upkeep.WriteOptions{Options: walk, Apply: true, Keys: []string{"retired", "never touched"}}}
	retiredAt := now().Add(-time.Minute)
	if r, err := upkeep.Retire(t.Context(), tbl.Driver, retire); err != nil || r.Counts["retired"] != 1 || r.Counts["dead"] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Get(t.Context(), "retired"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("a retired record: %v", err)
	}
	clock.forward(30 * time.Minute)
	want := map[string]driver.Instant{"k": expires, "retired": retiredAt, "never touched": base.Add(33 * time.Minute)}
	for key, died := range want {
		if past, err := s.History(t.Context(), key); err != nil || past.DiedAt != died || past.Value.User != key {
			t.Errorf("history of %s: died at %v, %v; want %v", key, past.DiedAt.Time(), err, died.Time())
		}
	}
	told := map[string]driver.Instant{}
	harvest := &upkeep.HarvestOptions{Options: walk, Bury: func(_ context.Context, dead []driver.Dead) error {
		for _, d := range dead {
			told[d.Key] = d.At
		}
		return nil
	}}
	if r, err := upkeep.Harvest(t.Context(), tbl.Driver, policy, harvest); err != nil || !reflect.DeepEqual(told, want) {
		t.Errorf("harvested are %v by %+v, %v; want %v", told, r, err, want)
	}
	clock.forward(2 * time.Hour)
	if r, err := upkeep.Reap(t.Context(), tbl.Driver, policy, reap); err != nil || r.Counts["expired"] != 3 {
		t.Errorf("after the retention it removes %+v, %v", r, err)
	}
	if _, err := s.History(t.Context(), "k"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("history of a reaped record: %v", err)
	}
}

// An expiry that another program wrote in a form that DynamoDB ignores decides, and is mended, though a
// life item says otherwise. The record has a life of its own again with its next touch.
func TestLifeTableMend(t *testing.T) {
	tbl := open[session](t, apartly())
	m, item := tbl.touchedForAnHour(t, "k", session{User: "ann"})
	if fault, err := tbl.Mend(t.Context(), "k", true); err != nil || fault != "" {
		t.Errorf("a record with nothing to mend: %q, %v", fault, err)
	}
	tbl.wantMeta(t, "nothing mended", "k", m)
	item["ttl"] = number(itoa(base.Add(30 * time.Minute)))
	tbl.put(t, "k", item)
	if fault, err := tbl.Mend(t.Context(), "k", true); err != nil || fault == "" {
		t.Errorf("an expiry in milliseconds: %q, %v", fault, err)
	}
	e := tbl.mustGet(t, "k")
	if e.ExpiresAt != base.Add(30*time.Minute) || e.CreatedAt != base || plain(tbl.raw(t, "k")["ttl"]) != itoa(e.ExpiresAt/1000) {
		t.Errorf("mended, it is %+v: %v", e.Life, tbl.raw(t, "k"))
	}
	m = tbl.mustTouch(t, "k", e.Meta, lasting(40*time.Minute), base)
	tbl.wantMeta(t, "touched", "k", m)
	m = tbl.mustTouch(t, "k", m, lasting(50*time.Minute), base)
	tbl.wantMeta(t, "touched in its own life item", "k", m)
	if life := tbl.lifeItemOf(t, "k"); life[formerName] == nil {
		t.Errorf("the life item is %v", life)
	}
}

// What Mend counts as mended is mended, also where a life stands apart and created_at is in the wrong unit.
func TestLifeTableMendCreatedAt(t *testing.T) {
	for name, opts := range map[string]*Options{"plain": nil, "apart": apartly(), "in the value from now on": apartly()} {
		tbl, clock := open[session](t, opts), handsAt(base)
		tbl.clock = clock.Now
		really := base.Add(-time.Hour)
		m := driver.Meta{Life: driver.Life{CreatedAt: really / 1000, ExpiresAt: base.Add(time.Hour)}}
		m = tbl.mustInsert(t, "k", session{User: "ann"}, m.Life, base)
		m = tbl.mustTouch(t, "k", m, driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: base.Add(2 * time.Hour)}, base)
		d := tbl
		if name == "in the value from now on" {
			d = tbl.like(t, inValue)
		}
		o := &upkeep.MendOptions{CreatedAt: "seconds", WriteOptions: upkeep.WriteOptions{Options: upkeep.Options{Now: clock.Now}, Apply: true}}
		r, err := upkeep.Mend(t.Context(), d.Driver, o)
		if err != nil || r.Counts["mended"] != 1 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		e := d.mustGet(t, "k")
		if e.Life != (driver.Life{CreatedAt: really, ExpiresAt: m.ExpiresAt}) || e.Value.User != "ann" {
			t.Errorf("%s: mended, it is %+v", name, e)
		}
		m = d.mustTouch(t, "k", e.Meta, driver.Life{CreatedAt: really, ExpiresAt: base.Add(3 * time.Hour)}, base)
		d.wantMeta(t, name+", then touched", "k", m)
	}
}
