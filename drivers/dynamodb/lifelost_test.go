package dynamodb

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// refuse answers each request of that kind as denied.
func refuse(op string) fault {
	return func(is string, req *request, send sender) (*response, error) {
		if is == op {
			return failure(req, 400, "AccessDeniedException"), nil
		}
		return send()
	}
}

// An overwrite that the store refuses leaves the record its life, also where the policy depends on the value.
func TestLifeTableRefusedOverwrite(t *testing.T) {
	of := func(v session) slidingttl.Policy {
		p := slidingttl.Policy{IdleGrace: 10 * time.Hour, MaxLifetime: 24 * time.Hour}
		if v.User == "guest" {
			p.IdleGrace = 10 * time.Minute
		}
		return p
	}
	large := session{User: "guest", Note: strings.Repeat("x", 401<<10)}
	for name, write := range map[string]func(*slidingttl.Store[session], *wire) error{
		"Update": func(s *slidingttl.Store[session], _ *wire) error {
			_, err := s.Update(t.Context(), "k", func(session) (session, error) { return large, nil })
			return err
		},
		"Upsert": func(s *slidingttl.Store[session], _ *wire) error { return s.Upsert(t.Context(), "k", large) },
		"Upsert, denied": func(s *slidingttl.Store[session], w *wire) error {
			w.between(refuse("PutItem"))
			return s.Upsert(t.Context(), "k", session{User: "guest"})
		},
	} {
		tbl, clock := open[session](t, apartly()), handsAt(base)
		s := openStore(t, tbl.Driver, of(session{}), slidingttl.Options[session]{Now: clock.Now, PolicyOf: of})
		if err := s.Insert(t.Context(), "k", session{User: "member"}); err != nil {
			t.Fatal(err)
		}
		clock.forward(time.Minute)
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := write(s, tbl.wire); !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrRefused) {
			t.Fatalf("%s: %v", name, err)
		}
		tbl.wire.reset()
		if e := tbl.mustGet(t, "k"); e.ExpiresAt != base.Add(time.Minute+10*time.Hour) {
			t.Errorf("%s, refused: the record expires after %v", name, e.ExpiresAt.Sub(base))
		}
		// What comes after is not held up.
		if err := s.Upsert(t.Context(), "k", session{User: "guest"}); err != nil {
			t.Fatal(err)
		}
		if e := tbl.mustGet(t, "k"); e.Value.User != "guest" || e.ExpiresAt > base.Add(20*time.Minute) && e.ExpiresAt != base.Add(time.Minute+10*time.Hour) {
			t.Errorf("%s: then %+v", name, e)
		}
	}
	// A conflict shortens nothing either.
	tbl := open[session](t, apartly())
	m, item := tbl.touchedForAnHour(t, "k", session{})
	item[versionName] = number("77")
	tbl.put(t, "k", item)
	if _, err := tbl.Replace(t.Context(), "k", session{User: "eve"}, m, lasting(10*time.Minute), base); !errors.Is(err, driver.ErrConflict) {
		t.Fatal(err)
	}
	if e := tbl.mustGet(t, "k"); e.ExpiresAt != m.ExpiresAt {
		t.Errorf("after a conflict it expires after %v", e.ExpiresAt.Sub(base))
	}
}

// After an overwrite that failed, and after another program changed the version, a touch costs one
// request again: at the latest when no overwrite can be under way any more.
func TestLifeTableVersionTaken(t *testing.T) {
	tbl := open[session](t, apartly())
	_, item := tbl.touchedForAnHour(t, "other", session{})
	version := plain(item[versionName])
	last := len(version) - 1
	item[versionName] = number(version[:last] + string('0'+(version[last]-'0'+1)%10))
	tbl.put(t, "other", item)
	m := tbl.mustGet(t, "other").Meta
	looked := []string{"UpdateItem", "GetItem", "UpdateItem"}
	tbl.wire.reset()
	for i, want := range [][]string{looked, {"UpdateItem"}} {
		m = tbl.mustTouch(t, "other", m, lasting(time.Duration(i+2)*time.Hour), base)
		tbl.wire.want(t, "a touch after another program's version", want...)
	}
	m, _ = tbl.touchedForAnHour(t, "k", session{})
	if _, err := tbl.Replace(t.Context(), "k", session{User: strings.Repeat("x", 410<<10)}, m, m.Life, base); !errors.Is(err, driver.ErrInvalid) {
		t.Fatal(err)
	}
	tbl.wire.reset()
	m = tbl.mustTouch(t, "k", m, lasting(2*time.Hour), base)
	tbl.wire.want(t, "a touch while the overwrite may land", looked...)
	tbl.clock = func() time.Time { return time.Now().Add(doubtLasts + time.Minute) }
	for i, want := range [][]string{looked, {"UpdateItem"}} {
		m = tbl.mustTouch(t, "k", m, lasting(time.Duration(i+3)*time.Hour), base)
		tbl.wire.want(t, "a touch after that", want...)
	}
	tbl.wantMeta(t, "at last", "k", m)
}

// A process moves a life to the value's item, and a deletion of another one fails in between. A third one's
// touch is not lost.
func TestLifeTableMovingMarkStays(t *testing.T) {
	for _, by := range []string{"Delete", "Remove"} {
		tbl := open[session](t, apartly())
		m, _ := tbl.touchedForAnHour(t, "k", session{})
		a, c := tbl.like(t, inValue), tbl.like(t, func(*Options) {})
		c.Driver.client = tbl.client
		begun := false
		var touched error
		var version driver.Version
		tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
			if op == "DeleteItem" {
				return failure(req, 400, "AccessDeniedException"), nil
			}
			if resp, err := send(); op != "UpdateItem" || begun {
				return resp, err
			} else { // the doubt is set
				begun = true
				b := tbl.like(t, func(*Options) {})
				is := b.Delete(t.Context(), "k")
				if by == "Remove" {
					is = b.Remove(t.Context(), "k", m, base)
				}
				if !errors.Is(is, driver.ErrRefused) {
					t.Errorf("%s: %v", by, is)
				}
				version, touched = c.Touch(t.Context(), "k", m, lasting(3*time.Hour), base)
				return resp, err
			}
		})
		_, err := a.Touch(t.Context(), "k", m, lasting(2*time.Hour), base)
		if touched != nil || !errors.Is(err, driver.ErrConflict) {
			t.Errorf("beside %s: the touch of the life table: %v; the one of the value: %v", by, touched, err)
		}
		c.wantMeta(t, "beside "+by, "k", driver.Meta{Life: lasting(3 * time.Hour), Version: version})
	}
}

// Where Hold was made longer, the life item is held longer than the value's item nevertheless.
func TestLifeTableHoldMadeLonger(t *testing.T) {
	const day = 24 * time.Hour
	tbl := open[session](t, &Options{LifeTable: "of its own", Hold: 7 * day})
	longer := tbl.like(t, func(o *Options) { o.Hold = 30 * day })
	m := tbl.mustInsert(t, "k", session{}, lasting(day), base)
	tbl.mustTouch(t, "k", m, lasting(2*day), base)
	m = longer.mustGet(t, "k").Meta
	version, err := longer.Replace(t.Context(), "k", session{User: "two"}, m, lasting(3*day), base)
	if err != nil {
		t.Fatal(err)
	}
	longer.mustTouch(t, "k", driver.Meta{Life: lasting(3 * day), Version: version}, lasting(4*day), base)
	held, _ := parseExpiry("ttl", tbl.raw(t, "k")["ttl"])
	if ttl, _ := parseExpiry("ttl", tbl.lifeItemOf(t, "k")["ttl"]); ttl < held.Add(lifeLasts) {
		t.Errorf("the life item is held until day %v, the value's until day %v", ttl.Sub(base)/day, held.Sub(base)/day)
	}
}

// A doubt in the life item of an earlier life, which DynamoDB may remove at any time, is held as any other.
func TestLifeTableDoubtIsHeld(t *testing.T) {
	tbl := open[session](t, apartly())
	tbl.touchedForAnHour(t, "k", session{})
	tbl.removeItem(t, tbl.Driver.table, "k")
	born := base.Add(16 * 24 * time.Hour)
	life := driver.Life{CreatedAt: born, ExpiresAt: born.Add(time.Hour)}
	m := tbl.mustInsert(t, "k", session{}, life, born)
	life.ExpiresAt = born.Add(2 * time.Hour)
	tbl.like(t, inValue).mustTouch(t, "k", m, life, born)
	if ttl, _ := parseExpiry("ttl", tbl.lifeItemOf(t, "k")["ttl"]); ttl < born.Add(doubtLasts) {
		t.Errorf("the doubt is held for %v", ttl.Sub(born))
	}
}

// An Insert that fails after it has ended a dead record's life: the record has one date for all, and can be
// removed.
func TestLifeTableEnded(t *testing.T) {
	o := apartly()
	o.MaxSkew = time.Minute
	tbl := open[session](t, o)
	_, image := tbl.touchedForAnHour(t, "k", session{})
	now, puts := base.Add(time.Hour), 0
	tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
		if op == "PutItem" {
			if puts++; puts == 2 {
				return failure(req, 400, "AccessDeniedException"), nil
			}
		}
		return send()
	})
	if _, err := tbl.Insert(t.Context(), "k", session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); !errors.Is(err, driver.ErrRefused) {
		t.Fatal(err)
	}
	tbl.wire.reset()
	raw, err := tbl.Raw(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := tbl.DeadIn(t.Context(), []Change{{Old: image, At: now.Time(), ByTTL: true}})
	if err != nil || len(dead) != 1 {
		t.Fatal(dead, err)
	}
	met := scanAll(t, tbl.Driver, 10)["k"]
	for by, at := range map[string]driver.Instant{"Raw": raw.ExpiresAt, "Scan": met.ExpiresAt, "DeadIn": dead[0].At} {
		if at != now {
			t.Errorf("%s: it died %v after its expiry", by, at.Sub(now))
		}
	}
	tbl.clock = now.Add(o.MaxSkew - time.Millisecond).Time
	_, err = tbl.Latest(t.Context(), "k")
	wantNotFound(t, "Latest of an ended life, which a clock that is behind would take for alive", err)
	tbl.clock = now.Add(o.MaxSkew).Time
	if e, err := tbl.Latest(t.Context(), "k"); err != nil || e.ExpiresAt != now {
		t.Errorf("Latest, as of History, of an ended life: %+v, %v", e, err)
	}
	if err := tbl.Remove(t.Context(), "k", met.Meta, now-1); err != nil || tbl.raw(t, "k") != nil {
		t.Errorf("Remove, as a reap does: %v; the item is %v", err, tbl.raw(t, "k"))
	}
}

// An overwrite whose last write is late leaves alone what another process has marked for an end meanwhile.
func TestLifeTableSettledAfterTheEnd(t *testing.T) {
	tbl := open[session](t, apartly())
	m, _ := tbl.touchedForAnHour(t, "k", session{})
	other, updates := tbl.like(t, func(*Options) {}), 0
	var marked attrs
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		if op == "UpdateItem" {
			if updates++; updates == 2 {
				tbl.wire.between(nil)
				k, err := other.primaryKey("k")
				l, err2 := other.lifeOf(t.Context(), k)
				_, s, err3 := other.valueAfter(t.Context(), k, l)
				_, done, err4 := other.end(t.Context(), k, &s)
				if err := errors.Join(err, err2, err3, err4); err != nil || !done {
					t.Errorf("another process's end: %t, %v", done, err)
				}
				marked = tbl.lifeItemOf(t, "k")
			}
		}
		return send()
	})
	if _, err := tbl.Replace(t.Context(), "k", session{}, m, lasting(30*time.Minute), base); err != nil {
		t.Fatal(err)
	}
	if is := tbl.lifeItemOf(t, "k"); marked == nil || !reflect.DeepEqual(is, marked) {
		t.Errorf("the life item is %v, and was %v", is, marked)
	}
}

// What says that a life stands apart, and of which record, is no reason to take the record for dead where it
// cannot be read. The expiry beside it has passed, and the life item's has not.
func TestLifeTableUnreadableGeneration(t *testing.T) {
	null := &types.AttributeValueMemberNULL{Value: true}
	for attribute, values := range map[string]map[string]types.AttributeValue{
		retainedGeneration: {"NULL": null, "text": text("one"), "zero": number("0")},
		"created_at":       {"none": nil, "NULL": null, "text": text("yesterday"), "micros": number("1700000000000000"), "bool": &types.AttributeValueMemberBOOL{Value: true}},
	} {
		for name, av := range values {
			tbl := open[session](t, apartly())
			_, item := tbl.touchedForAnHour(t, "k", session{})
			if attribute == retainedGeneration {
				item[retainedName].(*types.AttributeValueMemberM).Value[retainedGeneration] = av
			} else if item[attribute] = av; av == nil {
				delete(item, attribute)
			}
			tbl.put(t, "k", item)
			late := base.Add(30 * time.Minute)
			_, get := tbl.Latest(t.Context(), "k")
			_, insert := tbl.Insert(t.Context(), "k", session{}, driver.Life{CreatedAt: late, ExpiresAt: late.Add(time.Hour)}, late)
			raw, err := tbl.Raw(t.Context(), "k")
			dead, err2 := tbl.DeadIn(t.Context(), []Change{{Old: item, At: late.Time(), ByTTL: true}})
			if err := errors.Join(err, err2); err != nil || len(dead) != 1 {
				t.Fatal(dead, err)
			}
			for call, err := range map[string]error{
				"Latest": get, "Insert": insert, "Raw": raw.Problem, "DeadIn": dead[0].Problem, "Scan": scanAll(t, tbl.Driver, 10)["k"].Problem,
			} {
				if !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s %s: %s returns %v", attribute, name, call, err)
				}
			}
			if is := tbl.raw(t, "k"); !reflect.DeepEqual(is, item) {
				t.Errorf("%s %s: the item is now %v", attribute, name, is)
			}
		}
	}
}

// Delete heals a life item that cannot be read: the key's next record can be.
func TestLifeTableDeleteHeals(t *testing.T) {
	hour := driver.Floor(time.Now()).RoundUp(time.Second).Add(-time.Hour)
	for _, born := range []driver.Instant{base, hour} {
		deleteHeals(t, born)
	}
}

func deleteHeals(t *testing.T, born driver.Instant) {
	tbl, now := open[session](t, apartly()), born.Add(time.Hour)
	lasting := func(ttl time.Duration) driver.Life {
		return driver.Life{CreatedAt: born, ExpiresAt: now.Add(ttl)}
	}
	m := tbl.mustInsert(t, "k", session{}, lasting(time.Minute), now)
	tbl.mustTouch(t, "k", m, lasting(time.Hour), now)
	broken := tbl.lifeItemOf(t, "k")
	broken["created_at"] = text("yesterday")
	if _, err := tbl.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tbl.opts.LifeTable, Item: broken}); err != nil {
		t.Fatal(err)
	}
	if err := tbl.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	m = tbl.mustInsert(t, "k", session{}, lasting(time.Minute), now)
	tbl.wantMeta(t, "the next record", "k", m)
	m = tbl.mustTouch(t, "k", m, lasting(time.Hour), now)
	if e := tbl.mustGet(t, "k"); e.Life != m.Life {
		t.Errorf("touched, it reads as %+v", e.Life)
	}
}

// Without a version a life item names no generation: that of the one before is not taken for the record's.
func TestLifeTableNoVersionNamesNoGeneration(t *testing.T) {
	tbl := open[session](t, &Options{LifeTable: "of its own", Hold: 96 * time.Hour})
	clock := handsAt(driver.Floor(time.Now()))
	tbl.clock = clock.Now
	of := func(v session) slidingttl.Policy {
		p := slidingttl.Policy{IdleGrace: 20 * time.Hour, MaxLifetime: 90 * time.Hour}
		if v.User == "guest" {
			p.IdleGrace = 3 * time.Hour
		}
		return p
	}
	s := openStore(t, tbl.Driver, of(session{}), slidingttl.Options[session]{Now: clock.Now, PolicyOf: of})
	if err := s.Insert(t.Context(), "k", session{User: "member"}); err != nil {
		t.Fatal(err)
	}
	removeVersion := func() { // as another program does with each of its writes
		k, _ := tbl.primaryKey("k")
		_, err := tbl.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &tbl.Driver.table, Key: tbl.attributes(k), UpdateExpression: aws.String("REMOVE slidingttl_version"),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	removeVersion()
	clock.forward(2 * time.Hour)
	if _, err := s.Get(t.Context(), "k"); err != nil { // its touch's life item names no version
		t.Fatal(err)
	}
	puts := 0
	tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
		if op == "PutItem" {
			puts++
		} else if op == "UpdateItem" && puts > 0 {
			return failure(req, 400, "AccessDeniedException"), nil // after the overwrite nothing more is written
		}
		return send()
	})
	if err := s.Upsert(t.Context(), "k", session{User: "guest"}); err != nil {
		t.Fatal(err)
	}
	tbl.wire.reset()
	removeVersion()
	for range 6 {
		clock.forward(70 * time.Minute)
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Fatalf("a record with an idle grace of 3 h that is read each 70 min: %v", err)
		}
	}
}
