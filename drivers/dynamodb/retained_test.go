package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const retainedName = "slidingttl_expiry"

// retaining is a driver over the same table that retains the dead for d.
func (tbl *table[T]) retaining(t testing.TB, d time.Duration) *table[T] {
	t.Helper()
	opts := tbl.opts
	opts.Retain = d
	other := *tbl
	var err error
	if other.Driver, err = newDriver[T](tbl.Driver.client, tbl.Driver.table, &opts); err != nil {
		t.Fatal(err)
	}
	return &other
}

// wantExpiry wants the item's ttl to be ttl, and the record's expiry beside it if that differs.
func (tbl *table[T]) wantExpiry(t testing.TB, what, key string, at, ttl driver.Instant) {
	t.Helper()
	item := tbl.raw(t, key)
	if got := plain(item["ttl"]); got != itoa(ttl/1000) {
		t.Errorf("%s: ttl is %s; want %s", what, got, itoa(ttl/1000))
	}
	beside, ok := item[retainedName].(*types.AttributeValueMemberM)
	switch {
	case ok != (at != ttl):
		t.Errorf("%s: the item has %v beside ttl", what, item[retainedName])
	case ok && (plain(beside.Value["at"]) != itoa(at/1000) || plain(beside.Value["ttl"]) != itoa(ttl/1000) || len(beside.Value) != 2):
		t.Errorf("%s: the item has %v beside ttl", what, beside.Value)
	}
}

// setTTL changes ttl only, like another program, or a driver version without retention.
func (tbl *table[T]) setTTL(t testing.TB, key string, at driver.Instant) {
	t.Helper()
	_, err := tbl.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &tbl.Driver.table, Key: attrs{"pk": text(key)},
		UpdateExpression:          aws.String("SET #e = :e"),
		ExpressionAttributeNames:  map[string]string{"#e": "ttl"},
		ExpressionAttributeValues: attrs{":e": number(itoa(at / 1000))},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The item's attributes and the number of requests, whichever driver retained the record before
// and for how long. An expiry left behind by a driver without retention would be read by all.
func TestRetained(t *testing.T) {
	tbl := open[session](t, nil)
	retentions := []time.Duration{0, time.Hour, 2 * time.Hour}
	for _, first := range retentions {
		for _, second := range retentions {
			by := func(what string) string {
				return fmt.Sprintf("%s, first retained for %v, then for %v", what, first, second)
			}
			a, b := tbl.retaining(t, first), tbl.retaining(t, second)
			key := by("k")
			m := a.mustInsert(t, key, session{User: "one"}, lasting(time.Minute), base)
			tbl.wire.want(t, by("Insert"), "PutItem")
			a.wantExpiry(t, by("Insert"), key, m.ExpiresAt, m.ExpiresAt.Add(first))

			for what, move := range map[string]time.Duration{"Touch": time.Minute, "Touch to what the store's was": first + time.Minute} {
				to := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt.Add(move)}
				tbl.wire.reset()
				if _, err := b.Touch(t.Context(), key, m, to, base); err != nil {
					t.Fatal(by(what), err)
				}
				tbl.wire.want(t, by(what), "UpdateItem")
				b.wantExpiry(t, by(what), key, to.ExpiresAt, to.ExpiresAt.Add(second))
				if _, err := a.Touch(t.Context(), key, m, to, base); err == nil {
					t.Errorf("%s: lands twice", by(what))
				}
				m.Life = to
				if second != 0 {
					// The record before it was retained for that long.
					was := m
					was.ExpiresAt = m.ExpiresAt.Add(second)
					_, err := a.Touch(t.Context(), key, was, to, base)
					wantConflict(t, by(what+" of what expired when this is gone"), err, m)
				}
			}

			tbl.wire.reset()
			version, err := b.Replace(t.Context(), key, session{User: "two"}, m, m.Life, base)
			if err != nil {
				t.Fatal(by("Replace"), err)
			}
			tbl.wire.want(t, by("Replace"), "PutItem")
			b.wantExpiry(t, by("Replace"), key, m.ExpiresAt, m.ExpiresAt.Add(second))
			m.Version = version

			never := driver.Life{CreatedAt: m.CreatedAt}
			if _, err := b.Touch(t.Context(), key, m, never, base); err != nil {
				t.Fatal(by("Touch to no expiry"), err)
			}
			if item := tbl.raw(t, key); item["ttl"] != nil || item[retainedName] != nil {
				t.Errorf("%s: the item is %v", by("Touch to no expiry"), item)
			}
			back := lasting(time.Minute)
			if _, err := a.Touch(t.Context(), key, driver.Meta{Life: never, Version: m.Version}, back, base); err != nil {
				t.Fatal(by("Touch from no expiry"), err)
			}
			m.Life = back

			dead := m.ExpiresAt
			tbl.wire.reset()
			wantNotFound(t, by("Remove of a dead record"), b.Remove(t.Context(), key, m, dead))
			tbl.wire.want(t, by("Remove of a dead record"), "DeleteItem")
			m = b.mustInsert(t, key, session{User: "three"}, lasting(time.Hour), dead)
			tbl.wire.want(t, by("Insert over a dead record"), "PutItem")
			b.wantExpiry(t, by("Insert over a dead record"), key, m.ExpiresAt, m.ExpiresAt.Add(second))
			if err := a.Remove(t.Context(), key, m, dead); err != nil {
				t.Error(by("Remove"), err)
			}
			tbl.wire.want(t, by("Remove"), "DeleteItem")
		}
	}
}

// A program that changes only ttl gives the record that expiry, however it was retained. The
// expiry beside it must not undo that, neither for a later nor for an earlier one.
func TestRetainedThenMoved(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	d := tbl.retaining(t, time.Hour)
	for name, to := range map[string]driver.Instant{
		"sooner than its expiry":   base.Add(5 * time.Minute),
		"to its expiry":            base.Add(10 * time.Minute),
		"while it was to be held":  base.Add(30 * time.Minute),
		"later than it was held":   base.Add(2 * time.Hour),
		"past what dates can hold": latest,
	} {
		m := d.mustInsert(t, name, session{User: "one"}, lasting(10*time.Minute), base)
		d.setTTL(t, name, to)
		moved := driver.Meta{Life: driver.Life{CreatedAt: base, ExpiresAt: to}, Version: m.Version}
		if e := d.mustGet(t, name); e.Meta != moved {
			t.Errorf("%s: read as %+v; want %+v", name, e.Meta, moved)
		}
		if r := scanAll(t, d.Driver, 100)[name]; r.Meta != moved || r.HeldUntil != 0 {
			t.Errorf("%s: the scan shows %+v; want %+v", name, r, moved)
		}
		if r, err := d.Raw(ctx, name); err != nil || r.Meta != moved {
			t.Errorf("%s: Raw shows %+v, %v; want %+v", name, r.Meta, err, moved)
		}
		_, err := d.Insert(ctx, name, session{}, lasting(time.Hour), to-1)
		wantConflict(t, name+": Insert while it lives", err, moved)
		if to != m.ExpiresAt {
			_, err = d.Touch(ctx, name, m, lasting(3*time.Hour), base)
			wantConflict(t, name+": Touch of what it was", err, moved)
		}
		d.wire.reset()
		if _, err := d.Touch(ctx, name, moved, lasting(3*time.Hour), base); err != nil {
			t.Errorf("%s: Touch: %v", name, err)
		}
		d.wire.want(t, name+": Touch", "UpdateItem")
		d.wantExpiry(t, name+": Touch", name, base.Add(3*time.Hour), base.Add(4*time.Hour))
	}
}

// A retained expiry counts only beside the Number that it was written for, even if another form
// was mended to the same Number.
func TestRetainedInOtherForms(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	at, ttl := base.Add(10*time.Minute), base.Add(70*time.Minute)
	kept := retained(at, ttl)
	for name, c := range map[string]struct {
		expiry, beside types.AttributeValue
		want           driver.Instant
		odd            string // the field of the error
	}{
		"as written":              {seconds(ttl), kept, at, ""},
		"with a fraction":         {number(itoa(ttl/1000) + ".50"), kept, ttl + 500, ""},
		"as a String":             {text(itoa(ttl / 1000)), kept, ttl, ""},
		"in milliseconds":         {number(itoa(ttl)), kept, ttl, ""},
		"without an expiry":       {nil, kept, 0, ""},
		"NULL beside it":          {seconds(ttl), &types.AttributeValueMemberNULL{Value: true}, ttl, ""},
		"a Number beside it":      {seconds(ttl), seconds(at), ttl, ""},
		"an empty Map beside it":  {seconds(ttl), &types.AttributeValueMemberM{Value: attrs{}}, ttl, ""},
		"another Map beside it":   {seconds(ttl), &types.AttributeValueMemberM{Value: attrs{"ttl": text(itoa(ttl / 1000)), "at": seconds(at)}}, ttl, ""},
		"a Map without an expiry": {seconds(ttl), &types.AttributeValueMemberM{Value: attrs{"ttl": seconds(ttl)}}, 0, retainedName + ".at"},
		"a Map with a word":       {seconds(ttl), &types.AttributeValueMemberM{Value: attrs{"ttl": seconds(ttl), "at": text("soon")}}, 0, retainedName + ".at"},
	} {
		item := attrs{"created_at": text(base.Time().Format(kit.RFC3339Milli)), "user": text("one"), versionName: number("7"), retainedName: c.beside}
		if c.expiry != nil {
			item["ttl"] = c.expiry
		}
		tbl.put(t, name, item)
		e, err := tbl.Get(ctx, name)
		if c.odd != "" {
			wantInvalid(t, name, err, fmt.Sprintf("attribute %q", c.odd))
			continue
		}
		if want := (driver.Life{CreatedAt: base, ExpiresAt: c.want}); err != nil || e.Life != want {
			t.Errorf("%s: read as %+v, %v; want %+v", name, e.Life, err, want)
			continue
		}
		if c.want != 0 {
			_, err := tbl.Insert(ctx, name, session{}, lasting(5*time.Hour), c.want-1)
			wantConflict(t, name+": Insert", err, e.Meta)
		}
		if _, err := tbl.Mend(ctx, name, true); err != nil {
			t.Errorf("%s: Mend: %v", name, err)
		}
		if e = tbl.mustGet(t, name); e.ExpiresAt != c.want || e.Value.User != "one" {
			t.Errorf("%s: mended to %+v", name, e)
		}
		if _, err := tbl.Touch(ctx, name, e.Meta, lasting(4*time.Hour), base); err != nil {
			t.Errorf("%s: Touch: %v", name, err)
		}
		tbl.wantExpiry(t, name+": Touch", name, base.Add(4*time.Hour), base.Add(4*time.Hour))
		if c.want != 0 {
			tbl.put(t, name, item)
			tbl.mustInsert(t, name, session{}, lasting(5*time.Hour), c.want)
			tbl.wantExpiry(t, name+": Insert over it", name, base.Add(5*time.Hour), base.Add(5*time.Hour))
		}
	}

	d := tbl.retaining(t, time.Hour)
	tbl.put(t, "mended", attrs{"ttl": number(itoa(at))})
	if _, err := d.Mend(ctx, "mended", true); err != nil {
		t.Fatal(err)
	}
	d.wantExpiry(t, "mended by one that retains", "mended", at, ttl)
}

// Live leaves a retained dead record out; a scan and Raw return it.
func TestRetainedIsDead(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	d := tbl.retaining(t, time.Hour)
	d.mustInsert(t, "dead", session{}, lasting(time.Minute), base)
	d.mustInsert(t, "alive", session{}, lasting(2*time.Minute), base)
	d.mustInsert(t, "moved", session{}, lasting(time.Minute), base)
	d.setTTL(t, "moved", base.Add(2*time.Minute))
	live := d.Live(base.Add(time.Minute))
	out, err := d.Driver.client.Scan(ctx, &dynamodb.ScanInput{
		TableName: &tbl.Driver.table, FilterExpression: &live.Expression,
		ExpressionAttributeNames: live.Names, ExpressionAttributeValues: live.Values,
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, item := range out.Items {
		found = append(found, plain(item["pk"]))
	}
	if slices.Sort(found); !slices.Equal(found, []string{"alive", "moved"}) {
		t.Errorf("Live finds %q", found)
	}
	e := d.mustGet(t, "dead")
	if r := scanAll(t, tbl.Driver, 100)["dead"]; r.Meta != e.Meta || r.HeldUntil != base.Add(time.Hour+time.Minute) {
		t.Errorf("the scan shows %+v", r)
	}
	r, err := tbl.Raw(ctx, "dead")
	want := map[string]string{
		"ttl": itoa(base.Add(time.Hour+time.Minute) / 1000), "created_at": base.Time().Format(kit.RFC3339Milli), versionName: itoa(driver.Instant(e.Version & anyVersion)),
		retainedName + ".at": itoa(base.Add(time.Minute) / 1000), retainedName + ".ttl": itoa(base.Add(time.Hour+time.Minute) / 1000),
	}
	if err != nil || r.Meta != e.Meta || !maps.Equal(r.Fields, want) {
		t.Errorf("Raw shows %+v with %v, %v; want %v", r.Meta, r.Fields, err, want)
	}
}

// A written ttl is never too early, nor beyond the largest expiry.
func TestRetainedIsRounded(t *testing.T) {
	tbl := open[session](t, nil)
	for retain, c := range map[time.Duration]struct{ at, reads, ttl driver.Instant }{
		time.Nanosecond:         {base.Add(time.Minute), base.Add(time.Minute), base.Add(time.Minute + time.Second)},
		1500 * time.Millisecond: {base + 1, base.Add(time.Second), base.Add(3 * time.Second)},
		24 * time.Hour:          {latest - 1000, latest - 1000, latest},
		time.Hour:               {latest, latest, latest},
	} {
		d := tbl.retaining(t, retain)
		key := retain.String()
		if _, err := d.Insert(t.Context(), key, session{}, driver.Life{CreatedAt: base, ExpiresAt: c.at}, base); err != nil {
			t.Fatal(err)
		}
		d.wantExpiry(t, key, key, c.reads, c.ttl)
		if e := d.mustGet(t, key); e.ExpiresAt != c.reads {
			t.Errorf("retained for %s: read as %v; want %v", key, e.ExpiresAt, c.reads)
		}
	}
}

// A T that holds all attributes returns the driver's own on an overwrite.
func TestRetainedIsNotTheValues(t *testing.T) {
	tbl := open[map[string]any](t, nil)
	d := tbl.retaining(t, time.Hour)
	d.mustInsert(t, "k", map[string]any{"user": "one"}, lasting(time.Minute), base)
	e := d.mustGet(t, "k")
	if _, err := tbl.Replace(t.Context(), "k", e.Value, e.Meta, lasting(time.Hour), base); err != nil {
		t.Fatal(err)
	}
	tbl.wantExpiry(t, "overwritten by one that does not retain", "k", base.Add(time.Hour), base.Add(time.Hour))

	_, err := New[struct {
		Expiry any `dynamodbav:"slidingttl_expiry"`
	}](tbl.client, "t", nil)
	wantInvalid(t, "a field for it", err, fmt.Sprintf("attribute %q", retainedName), "would be overwritten")
}

// What reads call alive is alive for Insert and Live too, whatever its expiries are.
func TestRetainedOfAnotherForm(t *testing.T) {
	tbl := open[session](t, nil)
	live := tbl.Live(base)
	earlier, later := seconds(base.Add(-time.Minute)), seconds(base.Add(time.Minute))
	for name, tt := range map[string]struct {
		ttl, at types.AttributeValue
		dead    bool
	}{
		"Number":           {later, earlier, true},
		"String":           {text(itoa(base.Add(time.Minute) / 1000)), earlier, false},
		"String RFC 3339":  {text(base.Add(time.Minute).Time().Format(time.RFC3339)), earlier, false},
		"NULL":             {&types.AttributeValueMemberNULL{Value: true}, earlier, false},
		"Binary":           {&types.AttributeValueMemberB{Value: []byte("1")}, earlier, false},
		"later than ttl":   {earlier, later, true},
		"ttl is negative":  {number("-1"), later, true},
		"both still later": {later, seconds(base.Add(time.Hour)), false},
	} {
		ttl := tt.ttl
		tbl.put(t, name, attrs{"user": text("theirs"), "ttl": ttl, retainedName: &types.AttributeValueMemberM{Value: attrs{
			retainedAt: tt.at, retainedTTL: ttl,
		}}})
		e, err := tbl.Get(t.Context(), name)
		dead := err == nil && !e.Alive(base)
		if dead != tt.dead {
			t.Errorf("%s: read as %+v, %v", name, e.Meta, err)
		}
		k, _ := tbl.primaryKey(name)
		out, err := tbl.client.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &tbl.Driver.table, KeyConditionExpression: aws.String("pk = :k"), FilterExpression: &live.Expression, ExpressionAttributeNames: live.Names,
			ExpressionAttributeValues: attrs{":k": tbl.attributes(k)["pk"], ":slidingttl_now": live.Values[":slidingttl_now"]},
		})
		if err != nil {
			t.Fatal(err)
		}
		if passes := out.Count == 1; passes == dead {
			t.Errorf("%s: Live passes it: %t, and reads call it dead: %t", name, passes, dead)
		}
		if _, err := tbl.Insert(t.Context(), name, session{User: "ours"}, lasting(time.Hour), base); (err == nil) != dead {
			t.Errorf("%s: Insert returns %v, and reads call it dead: %t", name, err, dead)
		}
	}
}

// A touch is resent only for the item that was found, and not for one with another expiry beside
// the same ttl.
func TestRetainedOfAnother(t *testing.T) {
	tbl := open[session](t, nil)
	ttl := base.Add(time.Hour)
	item := attrs{"ttl": seconds(ttl), retainedName: retained(base.Add(time.Minute), ttl),
		"created_at": text(base.Time().In(time.FixedZone("", 3600)).Format(time.RFC3339)), versionName: number("7")}
	tbl.put(t, "k", item)
	m := tbl.mustGet(t, "k").Meta
	sends := 0
	tbl.wire.between(func(_ string, _ *request, send sender) (*response, error) {
		if sends++; sends == 2 {
			item[retainedName] = retained(base.Add(2*time.Minute), ttl)
			tbl.put(t, "k", item)
		}
		return send()
	})
	_, err := tbl.Touch(t.Context(), "k", m, lasting(time.Hour), base)
	wantConflict(t, "Touch", err, driver.Meta{Life: lasting(2 * time.Minute), Version: m.Version})
	if sends != 2 {
		t.Errorf("the touch was sent %d times; want 2", sends)
	}
}
