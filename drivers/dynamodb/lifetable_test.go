package dynamodb

import (
	"errors"
	"fmt"
	"os"
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

// apartly is a layout with a life table.
func apartly() *Options { return &Options{LifeTable: "of its own", Hold: 24 * time.Hour} }

// lifeItemOf returns the stored life item, nil if there is none.
func (tbl *table[T]) lifeItemOf(t testing.TB, key string) attrs {
	t.Helper()
	k, err := tbl.primaryKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tbl.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &tbl.opts.LifeTable, Key: tbl.attributes(k), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func (tbl *table[T]) mustTouch(t testing.TB, key string, was driver.Meta, life driver.Life, now driver.Instant) driver.Meta {
	t.Helper()
	version, err := tbl.Touch(t.Context(), key, was, life, now)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Meta{Life: life, Version: version}
}

func (tbl *table[T]) wantMeta(t testing.TB, what, key string, want driver.Meta) {
	t.Helper()
	if e, err := tbl.Latest(t.Context(), key); err != nil || e.Meta != want {
		t.Errorf("%s: %+v, %v; want %+v", what, e.Meta, err, want)
	}
}

// like returns a driver over the same tables with other options.
func (tbl *table[T]) like(t testing.TB, change func(*Options)) *table[T] {
	t.Helper()
	opts, other := tbl.opts, *tbl
	change(&opts)
	d, err := newDriver[T](tbl.Driver.client, tbl.Driver.table, &opts)
	if err != nil {
		t.Fatal(err)
	}
	other.Driver = d
	return &other
}

func without(o *Options) { o.LifeTable, o.Hold, o.LifeInValue = "", 0, false }
func inValue(o *Options) { o.LifeInValue = true }

// money is what units cost, in read units: a write unit costs as much as five.
func money(s Stats) float64 { return s.ReadUnits + 5*(s.WriteUnits+s.TouchUnits) }

// TestLifeTableCapacity measures what calls cost with and without a life table, and wants README.md to say
// so. With -v it prints the table. A touch costs one unit, and 10 KB pay from some touches on.
func TestLifeTableCapacity(t *testing.T) {
	one, apart := open[session](t, nil), open[session](t, apartly())
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kb := range []int{1, 10, 50, 300} {
		v, key := session{User: strings.Repeat("x", kb*1000-200)}, fmt.Sprint(kb)
		type costs struct{ insert, first, touch, read, overwrite, remove Stats }
		measure := func(tbl *table[session]) (c costs) {
			var m driver.Meta
			cost := func(into *Stats, call func() error) {
				t.Helper()
				before := tbl.Stats()
				if err := call(); err != nil {
					t.Fatal(err)
				}
				after := tbl.Stats()
				*into = Stats{ReadUnits: after.ReadUnits - before.ReadUnits, WriteUnits: after.WriteUnits + after.TouchUnits - before.WriteUnits - before.TouchUnits, Refused: after.Refused - before.Refused}
			}
			touch := func(ttl time.Duration) func() error {
				return func() error { m = tbl.mustTouch(t, key, m, lasting(ttl), base); return nil }
			}
			cost(&c.insert, func() error { m = tbl.mustInsert(t, key, v, lasting(time.Minute), base); return nil })
			cost(&c.first, touch(2*time.Minute))
			cost(&c.touch, touch(3*time.Minute))
			cost(&c.read, func() error { tbl.mustGet(t, key); return nil })
			cost(&c.overwrite, func() (err error) {
				m.Version, err = tbl.Replace(t.Context(), key, v, m, m.Life, base)
				return err
			})
			cost(&c.remove, func() error { return tbl.Remove(t.Context(), key, m, base) })
			return c
		}
		a, b := measure(one), measure(apart)
		want := a // by what the life table changes
		want.first, want.touch = Stats{WriteUnits: 1}, Stats{WriteUnits: 1}
		want.read.ReadUnits += 0.5
		want.overwrite.WriteUnits++
		want.remove.WriteUnits++
		if b != want {
			t.Errorf("%d KB: with the life table calls cost %+v; want %+v", kb, b, want)
		}
		paid := func(c costs) float64 { return 100*money(c.read) + 10*money(c.touch) }
		ratio := paid(b) / paid(a)
		wider := (paid(b) + 10*money(b.overwrite)) / (paid(a) + 10*money(a.overwrite))
		if kb == 10 && (ratio > 0.45 || wider > 0.70) {
			t.Errorf("10 KB: 100 reads and 10 touches cost %.2f, with 10 overwrites %.2f", ratio, wider)
		}
		line := fmt.Sprintf("| %d KB | %v WCU | %v WCU | %v RCU | %v RCU | %v WCU | %v WCU | %.2f | %.2f |", kb, a.touch.WriteUnits, b.touch.WriteUnits,
			a.read.ReadUnits, b.read.ReadUnits, a.overwrite.WriteUnits, b.overwrite.WriteUnits, ratio, wider)
		t.Log(line)
		if !strings.Contains(string(readme), line+"\n") {
			t.Errorf("README.md does not have the row %s", line)
		}
	}
}

// The requests of each call, none of which waits for another but where the README says so.
func TestLifeTableRoundTrips(t *testing.T) {
	tbl := open[session](t, apartly())
	m := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	tbl.wire.want(t, "Insert", "PutItem")
	tbl.wantMeta(t, "Insert", "k", m)
	tbl.wire.want(t, "Get", "BatchGetItem")
	value := tbl.raw(t, "k")
	m = tbl.mustTouch(t, "k", m, lasting(2*time.Minute), base)
	m = tbl.mustTouch(t, "k", m, lasting(3*time.Minute), base)
	tbl.wire.want(t, "two touches", "UpdateItem", "UpdateItem")
	if after := tbl.raw(t, "k"); !reflect.DeepEqual(value, after) {
		t.Errorf("touches changed the value's item from %v to %v", value, after)
	}
	tbl.wantMeta(t, "touches", "k", m)
	tbl.wire.reset()
	var err error
	if m.Version, err = tbl.Replace(t.Context(), "k", session{User: "two"}, m, m.Life, base); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Replace", "UpdateItem", "PutItem")
	if err := tbl.Remove(t.Context(), "k", m, base); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Remove", "UpdateItem", "DeleteItem")
	if _, err := tbl.Touch(t.Context(), "k", m, lasting(time.Hour), base); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Touch of a removed record: %v", err)
	}
	tbl.wire.reset()

	// For an hour after it the next life's touches read the value too.
	m = tbl.mustInsert(t, "k", session{}, lasting(time.Minute), base)
	tbl.wire.want(t, "Insert after a deletion", "PutItem")
	looked := []string{"UpdateItem", "GetItem", "UpdateItem"}
	for range 2 {
		m = tbl.mustTouch(t, "k", m, lasting(2*time.Minute), base)
		tbl.wire.want(t, "a touch after a deletion", looked...)
	}
	tbl.clock = func() time.Time { return time.Now().Add(doubtLasts + time.Minute) }
	m = tbl.mustTouch(t, "k", m, lasting(3*time.Minute), base)
	tbl.wire.want(t, "the first touch after an hour", looked...)
	m = tbl.mustTouch(t, "k", m, lasting(4*time.Minute), base)
	tbl.wire.want(t, "the next one", "UpdateItem")

	now := m.ExpiresAt.Add(time.Minute)
	tbl.mustInsert(t, "k", session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Minute)}, now)
	tbl.wire.want(t, "Insert over a dead record", "PutItem", "GetItem", "UpdateItem", "PutItem")
	if _, err := tbl.Raw(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Raw", "GetItem", "GetItem")
}

// A policy that depends on the value: a touch of the value before, which lands while an overwrite has
// written the life and not yet the value, gives the new value its own expiry. Nothing is lost.
func TestLifeTablePolicyOf(t *testing.T) {
	tbl := open[session](t, apartly())
	other := tbl.like(t, func(*Options) {})
	other.Driver.client = tbl.client
	m := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	m = tbl.mustTouch(t, "k", m, lasting(2*time.Minute), base)
	touched := false
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		if op == "PutItem" && !touched {
			touched = true
			other.mustTouch(t, "k", m, lasting(time.Hour), base)
		}
		return send()
	})
	version, err := tbl.Replace(t.Context(), "k", session{User: "two"}, m, m.Life, base)
	if err != nil || !touched {
		t.Fatal(err, touched)
	}
	if e := tbl.mustGet(t, "k"); e.Value.User != "two" || e.Meta != (driver.Meta{Life: lasting(time.Hour), Version: version}) {
		t.Errorf("a touch beside an overwrite left %+v", e)
	}
	// One that was planned before and comes after is told of it.
	_, err = other.Touch(t.Context(), "k", m, lasting(2*time.Hour), base)
	wantConflict(t, "a touch of the value before", err, driver.Meta{Life: lasting(time.Hour), Version: version})
}

// A store over existing items: the first access adopts each, and touches from then on leave it alone.
func TestLifeTableAdopts(t *testing.T) {
	tbl := open[session](t, apartly())
	plain := tbl.like(t, without)
	clock := handsAt(base)
	s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now})
	tbl.put(t, "foreign", attrs{"user": text("ann")})
	plain.mustInsert(t, "plain", session{User: "ann"}, lasting(time.Hour), base)
	for range 3 {
		clock.forward(20 * time.Minute)
		for _, key := range []string{"foreign", "plain"} {
			if v, err := s.Get(t.Context(), key); err != nil || v.User != "ann" {
				t.Fatalf("%s: %+v, %v", key, v, err)
			}
		}
	}
	for _, key := range []string{"foreign", "plain"} {
		if tbl.lifeItemOf(t, key) == nil {
			t.Errorf("%s: no life item", key)
		}
	}
	// And back to another program's item, as undo does.
	e := tbl.mustGet(t, "foreign")
	if _, err := tbl.Touch(t.Context(), "foreign", e.Meta, driver.Life{}, driver.Floor(clock.Now())); err != nil {
		t.Fatal(err)
	}
	if item := tbl.raw(t, "foreign"); len(item) != 2 {
		t.Errorf("taken back, the item is %v", item)
	}
	if e := tbl.mustGet(t, "foreign"); e.Life != (driver.Life{}) {
		t.Errorf("taken back, it reads as %+v", e.Life)
	}
}

// Rolling the option out and back: with LifeInValue in between, processes with and without it read each
// other's lives exactly, whoever wrote last.
func TestLifeTableSwitched(t *testing.T) {
	apart := open[session](t, apartly())
	kinds := map[string]*table[session]{"apart": apart, "in the value": apart.like(t, inValue), "without": apart.like(t, without)}
	for _, pair := range [][2]string{{"without", "in the value"}, {"in the value", "apart"}} {
		a, b := kinds[pair[0]], kinds[pair[1]]
		for _, order := range [][2]*table[session]{{a, b}, {b, a}} {
			key := fmt.Sprint(pair, order[0] == a)
			first, second := order[0], order[1]
			first.mustInsert(t, key, session{User: "one"}, lasting(time.Minute), base)
			for i := range 6 {
				by, other := []*table[session]{first, second}[i%2], []*table[session]{second, first}[i%2]
				e, err := by.Latest(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				life := lasting(time.Duration(i+2) * time.Minute)
				if i < 4 {
					by.mustTouch(t, key, e.Meta, life, base)
				} else if _, err := by.Replace(t.Context(), key, session{User: fmt.Sprint(i)}, e.Meta, life, base); err != nil {
					t.Fatal(err)
				}
				for name, reader := range map[string]*table[session]{"itself": by, "the other": other} {
					if e, err := reader.Latest(t.Context(), key); err != nil || e.Life != life {
						t.Errorf("%s, write %d, read by %s: %+v, %v; want %+v", key, i, name, e.Life, err, life)
					}
				}
			}
		}
	}
	// All lives are in the values again when each was touched once: nothing is lost without the table.
	m := apart.mustInsert(t, "back", session{}, lasting(time.Minute), base)
	m = apart.mustTouch(t, "back", m, lasting(time.Hour), base)
	m = kinds["in the value"].mustTouch(t, "back", m, lasting(2*time.Hour), base)
	if e := kinds["without"].mustGet(t, "back"); e.Life != m.Life {
		t.Errorf("without the table it has %+v; want %+v", e.Life, m.Life)
	}
	if item := apart.raw(t, "back"); item[retainedName] != nil {
		t.Errorf("its item is %v", item)
	}
}

// A process without the option beside one with it does not see the touches: a record dies for it at the
// expiry of the last write. What it writes decides from then on, and a touch of before has no effect.
func TestLifeTableBesideOthers(t *testing.T) {
	tbl := open[session](t, apartly())
	plain := tbl.like(t, without)
	m := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	m = tbl.mustTouch(t, "k", m, lasting(time.Hour), base)
	if e := plain.mustGet(t, "k"); e.ExpiresAt != base.Add(time.Minute) {
		t.Errorf("a process without the table reads %+v", e.Life)
	}
	over := plain.mustInsert(t, "k", session{User: "two"}, driver.Life{CreatedAt: base.Add(2 * time.Minute), ExpiresAt: base.Add(4 * time.Minute)}, base.Add(2*time.Minute))
	if _, err := tbl.Touch(t.Context(), "k", m, lasting(2*time.Hour), base.Add(2*time.Minute)); err != nil {
		t.Logf("a touch of the life before: %v", err)
	}
	if e := tbl.mustGet(t, "k"); e.Life != over.Life || e.Value.User != "two" {
		t.Errorf("after a life that began without the table: %+v", e)
	}
	// Another program that moves ttl alone decides.
	m = tbl.mustInsert(t, "moved", session{}, lasting(time.Minute), base)
	m = tbl.mustTouch(t, "moved", m, lasting(time.Hour), base)
	tbl.setTTL(t, "moved", base.Add(30*time.Minute))
	e := tbl.mustGet(t, "moved")
	if e.ExpiresAt != base.Add(30*time.Minute) {
		t.Errorf("after another program moved ttl: %+v", e.Life)
	}
	is := tbl.mustTouch(t, "moved", e.Meta, lasting(2*time.Hour), base)
	tbl.wantMeta(t, "touched again", "moved", is)
	_ = m
}

// A touch behind Hold holds the value's item longer, at the price of a write.
func TestLifeTableHoldsLonger(t *testing.T) {
	tbl := open[session](t, &Options{LifeTable: "of its own", Hold: time.Minute, Retain: time.Hour})
	m := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	for _, ttl := range []time.Duration{2 * time.Minute, time.Hour, 30 * time.Minute} {
		m = tbl.mustTouch(t, "k", m, lasting(ttl), base)
		tbl.wantMeta(t, ttl.String(), "k", m)
		if held, err := parseExpiry("ttl", tbl.raw(t, "k")["ttl"]); err != nil || held < m.ExpiresAt.Add(time.Hour) {
			t.Errorf("%v: DynamoDB may delete the item at %v; it expires at %v and is retained for an hour", ttl, held.Time(), m.ExpiresAt.Time())
		}
	}
	version, err := tbl.Replace(t.Context(), "k", session{User: "two"}, m, m.Life, base)
	if err != nil {
		t.Fatal(err)
	}
	tbl.wantMeta(t, "overwritten", "k", driver.Meta{Life: m.Life, Version: version})
	if held, _ := parseExpiry("ttl", tbl.raw(t, "k")["ttl"]); held < base.Add(2*time.Hour) {
		t.Errorf("an overwrite moved ttl back to %v", held.Time())
	}
}

func TestLifeTableOptions(t *testing.T) {
	for field, opts := range map[string]Options{
		"Options.Hold":              {LifeTable: "lives"},
		"Options.LifeTable":         {Hold: time.Hour},
		"Options.LifeTable ":        {LifeInValue: true},
		"Options.LifeTable  ":       {LifeTable: "arn:aws:dynamodb:eu-west-1:1:table/sessions", Hold: time.Hour},
		"Options.PartitionKey.Name": {PartitionKey: KeyAttribute{Name: formerName}},
		"Options.SortKey.Name":      {SortKey: KeyAttribute{Name: doubtName, Of: Fixed("A")}},
		"Options.Version":           {Version: doubtName},
		"Options.Expiry":            {Expiry: doubtName},
		"Options.CreatedAt":         {CreatedAt: formerName},
	} {
		_, err := New[session](&dynamodb.Client{}, "sessions", &opts)
		wantInvalid(t, field, err, strings.TrimSpace(field))
	}
}

// Check knows the second table: its key, its TTL, the rights to it, and how long values are held.
func TestLifeTableCheck(t *testing.T) {
	tbl := open[session](t, apartly())
	if err := tbl.Check(t.Context(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, "a long lifetime", tbl.Check(t.Context(), 25*time.Hour), "Options.Hold", "25h")
	missing := tbl.like(t, func(o *Options) { o.LifeTable += "-none" })
	var none *types.ResourceNotFoundException
	if err := missing.Check(t.Context(), time.Hour); !errors.As(err, &none) {
		t.Errorf("no life table: %v", err)
	}
	sorted := open[session](t, &Options{SortKey: KeyAttribute{Name: "SK", Of: Fixed("A")}})
	other := tbl.like(t, func(o *Options) { o.LifeTable = sorted.Driver.table })
	wantInvalid(t, "a life table with another key", other.Check(t.Context(), time.Hour), "table "+sorted.Driver.table+": key", `"SK" S`)
	millis := tbl.like(t, func(o *Options) { o.CreatedAtFormat = UnixMilli })
	for kind, ok := range map[types.ScalarAttributeType]bool{types.ScalarAttributeTypeN: false, types.ScalarAttributeTypeS: true} {
		_, attributes := millis.schema()
		table := &types.TableDescription{TableStatus: types.TableStatusActive, AttributeDefinitions: append(attributes, types.AttributeDefinition{AttributeName: aws.String("created_at"), AttributeType: kind})}
		table.KeySchema, _ = millis.schema()
		if err := millis.checkTable(millis.opts.LifeTable, table); (err == nil) != ok {
			t.Errorf("a life table with an index by created_at of type %s: %v", kind, err)
		}
	}
	tbl.wire.between(refuse("UpdateItem"))
	if err := tbl.Check(t.Context(), time.Hour); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), tbl.opts.LifeTable) {
		t.Errorf("without the right to write: %v", err)
	}
}

// What has died is reported with the expiry in the life table, whatever ended it.
func TestLifeTableDead(t *testing.T) {
	tbl := open[session](t, apartly())
	expired := base.Add(time.Hour)
	touched := func(key string) attrs {
		m := tbl.mustInsert(t, key, session{User: key}, lasting(time.Minute), base)
		tbl.mustTouch(t, key, m, lasting(time.Hour), base)
		return tbl.raw(t, key)
	}
	ttl, over, deleted := touched("ttl"), touched("over"), touched("deleted")
	tbl.mustInsert(t, "over", session{}, driver.Life{CreatedAt: expired.Add(time.Hour), ExpiresAt: expired.Add(2 * time.Hour)}, expired.Add(time.Hour))
	next := tbl.mustGet(t, "over")
	tbl.mustTouch(t, "over", next.Meta, driver.Life{CreatedAt: next.CreatedAt, ExpiresAt: next.ExpiresAt.Add(time.Hour)}, next.CreatedAt)
	if err := tbl.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	late := expired.Add(24 * time.Hour).Time()
	dead, err := tbl.DeadIn(t.Context(), []Change{
		{Old: ttl, At: late, ByTTL: true},
		{Old: over, New: tbl.raw(t, "over"), At: late},
		{Old: deleted, At: late},
	})
	if err != nil || len(dead) != 3 {
		t.Fatalf("%+v, %v", dead, err)
	}
	for _, d := range dead {
		if d.At != expired || d.Deleted || d.ExpiresAt != expired {
			t.Errorf("%s died at %v, deleted %t, expiry %v; want %v", d.Key, d.At.Time(), d.Deleted, d.ExpiresAt.Time(), expired.Time())
		}
	}
	for key, r := range scanAll(t, tbl.like(t, without).Driver, 10) {
		if r.Problem == nil {
			t.Errorf("%s: a walk without the life table believes %+v", key, r.Life)
		}
	}
	// Audits and archives see the same.
	if met := scanAll(t, tbl.Driver, 10); met["ttl"].ExpiresAt != expired {
		t.Errorf("the scan met %+v", met["ttl"])
	}
	if raw, err := tbl.Raw(t.Context(), "ttl"); err != nil || raw.ExpiresAt != expired {
		t.Errorf("Raw: %+v, %v", raw.Life, err)
	}
}

// Items whose lives may be in the other table pass the filter until DynamoDB may delete them.
func TestLifeTableLive(t *testing.T) {
	tbl := open[session](t, apartly())
	m := tbl.mustInsert(t, "touched", session{}, lasting(time.Minute), base)
	tbl.mustTouch(t, "touched", m, lasting(time.Hour), base)
	for at, want := range map[time.Duration]int{30 * time.Minute: 1, 25 * time.Hour: 0} {
		live := tbl.Live(base.Add(at))
		out, err := tbl.client.Scan(t.Context(), &dynamodb.ScanInput{
			TableName: &tbl.Driver.table, FilterExpression: &live.Expression,
			ExpressionAttributeNames: live.Names, ExpressionAttributeValues: live.Values,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Items) != want {
			t.Errorf("after %v %d items pass; want %d", at, len(out.Items), want)
		}
	}
}
