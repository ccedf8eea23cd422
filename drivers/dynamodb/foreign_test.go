package dynamodb

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// itoa is a Number of seconds, with ms added.
func itoa(i driver.Instant) string { return strconv.FormatInt(int64(i), 10) }

// TestForeignForms reads, touches and replaces items with attributes in the forms that other
// programs use, and counts the requests.
func TestForeignForms(t *testing.T) {
	created := base + 120 // .120: has fewer decimals in the form of time.Time
	whole := base
	expires := base.Add(time.Minute)
	at := func(i driver.Instant) time.Time { return i.Time() }
	const once, twice = 1, 2
	for _, tt := range []struct {
		name    string
		item    attrs
		opts    Options
		life    driver.Life
		touches int // requests of the first touch
		later   int // of the next
	}{
		{"the driver's", attrs{"created_at": text("2030-01-02T03:04:05.120Z"), "ttl": number(itoa(expires / 1000)), versionName: number("7")},
			Options{}, driver.Life{CreatedAt: driver.Floor(time.Date(2030, 1, 2, 3, 4, 5, 120e6, time.UTC)), ExpiresAt: expires}, once, once},
		{"milliseconds", attrs{"created_at": number(itoa(created)), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires}, once, once},
		{"seconds", attrs{"created_at": number(itoa(whole / 1000)), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: whole, ExpiresAt: expires}, once, once},
		{"seconds and a fraction", attrs{"created_at": number(itoa(whole/1000) + ".125"), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: whole + 125, ExpiresAt: expires}, once, once},
		{"seconds and nanoseconds", attrs{"created_at": number(itoa(whole/1000) + ".1250001"), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: whole + 125, ExpiresAt: expires}, twice, once},
		{"time.Time", attrs{"created_at": text(at(created).Format(time.RFC3339Nano)), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires}, once, once},
		{"time.Time of a whole second", attrs{"created_at": text(at(whole).Format(time.RFC3339)), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: whole, ExpiresAt: expires}, once, once},
		{"nanoseconds", attrs{"created_at": text(at(whole).Add(123456789).Format(time.RFC3339Nano)), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: whole + 123, ExpiresAt: expires}, twice, once},
		{"another zone", attrs{"created_at": text(at(created).In(time.FixedZone("", 2*3600)).Format(time.RFC3339Nano)), "ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires}, twice, once},
		{"written by a driver in the other format", attrs{"created_at": text(at(created).Format(kit.RFC3339Milli)), "ttl": number(itoa(expires / 1000)), versionName: number("7")},
			Options{CreatedAtFormat: UnixMilli}, driver.Life{CreatedAt: created, ExpiresAt: expires}, once, once},
		{"an expiry of milliseconds' precision", attrs{"created_at": number(itoa(created)), "ttl": number(itoa(expires/1000) + ".25")},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires + 250}, once, once},
		{"an expiry of nanoseconds' precision", attrs{"created_at": number(itoa(created)), "ttl": number(itoa(expires/1000) + ".2500000001")},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires + 251}, twice, once},
		{"an exponent", attrs{"created_at": number(itoa(created)), "ttl": number("4E9")},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: 4e12}, once, once},
		{"no created_at", attrs{"ttl": number(itoa(expires / 1000))},
			Options{}, driver.Life{ExpiresAt: expires}, once, once},
		{"no expiry", attrs{"created_at": number(itoa(created))},
			Options{}, driver.Life{CreatedAt: created}, once, once},
		{"neither", attrs{}, Options{}, driver.Life{}, once, once},
		{"NULL", attrs{"created_at": &types.AttributeValueMemberNULL{Value: true}, "ttl": &types.AttributeValueMemberNULL{Value: true}, versionName: &types.AttributeValueMemberNULL{Value: true}},
			Options{}, driver.Life{}, twice, once},
		{"zero values", attrs{"created_at": text("0001-01-01T00:00:00Z")}, Options{}, driver.Life{}, twice, once},
		{"empty", attrs{"created_at": text("")}, Options{}, driver.Life{}, twice, once},
		{"a version of letters", attrs{"created_at": number(itoa(created)), "ttl": number(itoa(expires / 1000)), versionName: text("etag-7")},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires}, twice, twice},
		{"a version of zero", attrs{"created_at": number(itoa(created)), "ttl": number(itoa(expires / 1000)), versionName: number("0")},
			Options{}, driver.Life{CreatedAt: created, ExpiresAt: expires}, twice, twice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tbl := open[session](t, &tt.opts)
			ctx := t.Context()
			tt.item["user"], tt.item["colour"] = text("one"), text("blue")
			tbl.put(t, "k", tt.item)
			e := tbl.mustGet(t, "k")
			if e.Life != tt.life || e.Value.User != "one" {
				t.Fatalf("read as %+v, want %+v", e, tt.life)
			}

			// A touch, which adopts where it has to.
			to := driver.Life{CreatedAt: tt.life.CreatedAt, ExpiresAt: base.Add(time.Hour)}
			if to.CreatedAt == 0 {
				to.CreatedAt = created
			}
			m := e.Meta
			for i, trips := range []int{tt.touches, tt.later} {
				to.ExpiresAt += 1000
				tbl.wire.reset()
				version, err := tbl.Touch(ctx, "k", m, to, base)
				if err != nil {
					t.Fatalf("touch %d: %v", i+1, err)
				}
				tbl.wire.want(t, fmt.Sprintf("touch %d", i+1), []string{"UpdateItem", "UpdateItem"}[:trips]...)
				m = driver.Meta{Life: to, Version: version}
				if e := tbl.mustGet(t, "k"); e.Meta != m || e.Value.User != "one" {
					t.Fatalf("stored after touch %d: %+v, want %+v", i+1, e, m)
				}
			}
			if plain(tbl.raw(t, "k")["colour"]) != "blue" {
				t.Error("the touch took an attribute that T does not know")
			}
			kept := func(what string) {
				t.Helper()
				was, ok := tt.item["created_at"].(*types.AttributeValueMemberN)
				if is := tbl.raw(t, "k")["created_at"]; ok && !strings.HasPrefix(was.Value, plain(is)) {
					t.Errorf("%s turned the Number %s into %v", what, was.Value, is)
				}
			}
			kept("the touch")

			// A replacement, of the item as it was first.
			tbl.put(t, "k", tt.item)
			version, err := tbl.Replace(ctx, "k", session{User: "two"}, e.Meta, to, base)
			if err != nil {
				t.Fatal(err)
			}
			want := driver.Entry[session]{Value: session{User: "two"}, Meta: driver.Meta{Life: to, Version: version}}
			if e := tbl.mustGet(t, "k"); e != want {
				t.Fatalf("stored after Replace: %+v, want %+v", e, want)
			}
			kept("Replace")

			// The touch of another record does not change it.
			tbl.put(t, "k", tt.item)
			other := e.Meta
			other.CreatedAt++
			_, err = tbl.Touch(ctx, "k", other, to, base)
			wantConflict(t, "Touch for another generation", err, e.Meta)
			other = e.Meta
			other.Version++
			_, err = tbl.Replace(ctx, "k", session{}, other, to, base)
			wantConflict(t, "Replace of another version", err, e.Meta)
			if got := tbl.raw(t, "k"); len(got) != len(tt.item)+1 {
				t.Errorf("a refused write changed the item to %v", got)
			}
		})
	}
}

// TestForeignWriteIsNoticed: another program writes between a read and a write.
func TestForeignWriteIsNoticed(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	m := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	item := tbl.raw(t, "k")

	left := maps.Clone(item)
	delete(left, versionName)
	tbl.put(t, "k", left)
	found := m
	found.Version = 0
	_, err := tbl.Replace(ctx, "k", session{}, m, m.Life, base)
	wantConflict(t, "the version left out", err, found)

	item[versionName] = number("8")
	tbl.put(t, "k", item)
	_, err = tbl.Replace(ctx, "k", session{}, found, m.Life, base)
	wantConflict(t, "the version changed", err, driver.Meta{Life: m.Life, Version: 8})

	item[versionName] = text("8")
	tbl.put(t, "k", item)
	_, err = tbl.Replace(ctx, "k", session{}, driver.Meta{Life: m.Life, Version: 8}, m.Life, base)
	if e := tbl.mustGet(t, "k"); e.Version == 8 {
		t.Error("the String 8 reads as the version 8")
	} else {
		wantConflict(t, "a String that looks like the Number", err, e.Meta)
	}
}

// TestExpiryInThePast: DynamoDB never deletes items that expired long ago.
func TestExpiryInThePast(t *testing.T) {
	for _, ttl := range []string{"0", "-1", "1", "0.5", "1000000000"} {
		t.Run(ttl, func(t *testing.T) {
			tbl := open[session](t, nil)
			ctx := t.Context()
			tbl.put(t, "k", attrs{"ttl": number(ttl), "user": text("one")})
			e := tbl.mustGet(t, "k")
			if e.Alive(base) || e.ExpiresAt == 0 {
				t.Fatalf("read as alive: %+v", e.Meta)
			}
			_, err := tbl.Touch(ctx, "k", e.Meta, lasting(time.Hour), base)
			wantNotFound(t, "Touch", err)
			_, err = tbl.Replace(ctx, "k", session{}, e.Meta, lasting(time.Hour), base)
			wantNotFound(t, "Replace", err)
			tbl.wire.reset()
			tbl.mustInsert(t, "k", session{}, lasting(time.Hour), base)
			tbl.wire.want(t, "Insert", "PutItem")
		})
	}
}

// TestUnreadable: items that cannot be read without guessing are not touched, and an overwrite
// replaces them.
func TestUnreadable(t *testing.T) {
	expires := itoa(base.Add(time.Minute) / 1000)
	for _, tt := range []struct {
		name     string
		item     attrs
		field    string
		mentions []string
	}{
		{"microseconds", attrs{"ttl": number(expires + "000000")}, `attribute "ttl"`, nil},
		{"words", attrs{"ttl": text("tomorrow")}, `attribute "ttl"`, []string{"tomorrow", "Number of seconds"}},
		{"a long text", attrs{"ttl": text(fmt.Sprintf("%100s", "x"))}, `attribute "ttl"`, []string{"String of 100 bytes"}},
		{"an empty text", attrs{"ttl": text("")}, `attribute "ttl"`, nil},
		{"a huge number", attrs{"ttl": number("1E120")}, `attribute "ttl"`, nil},
		{"a BOOL", attrs{"ttl": &types.AttributeValueMemberBOOL{Value: true}}, `attribute "ttl"`, []string{"BOOL"}},
		{"created_at in words", attrs{"created_at": text("yesterday")}, `attribute "created_at"`, []string{"yesterday", "RFC 3339"}},
		{"created_at without a zone", attrs{"created_at": text("2026-01-02T03:04:05")}, `attribute "created_at"`, []string{"RFC 3339"}},
		{"created_at before the epoch", attrs{"created_at": number("-5")}, `attribute "created_at"`, []string{"-5"}},
		{"created_at just before the epoch", attrs{"created_at": number("-0.5")}, `attribute "created_at"`, []string{"-0.5"}},
		{"created_at in microseconds", attrs{"created_at": number(expires + "000000")}, `attribute "created_at"`, nil},
		{"a version of no use", attrs{versionName: &types.AttributeValueMemberBOOL{}}, `attribute "` + versionName + `"`, []string{"BOOL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tbl := open[session](t, nil)
			ctx := t.Context()
			tbl.put(t, "k", tt.item)
			tbl.put(t, "fine", attrs{"user": text("one")})
			before := tbl.raw(t, "k")
			check := func(what string, err error) {
				t.Helper()
				wantInvalid(t, what, err, tt.field, tt.mentions...)
			}
			_, err := tbl.Get(ctx, "k")
			check("Get", err)
			_, err = tbl.Touch(ctx, "k", driver.Meta{Life: lasting(time.Minute)}, lasting(time.Hour), base)
			check("Touch", err)
			found, err := tbl.GetMulti(ctx, []string{"fine", "k"})
			check("GetMulti", err)
			var one *driver.KeyError
			if !errors.As(err, &one) || one.Index != 1 {
				t.Errorf("GetMulti does not say which key: %v", err)
			}
			if len(found) != 1 || found["fine"].Value.User != "one" {
				t.Errorf("GetMulti found %v, want the readable one", found)
			}
			if after := tbl.raw(t, "k"); !reflect.DeepEqual(after, before) {
				t.Errorf("the item became %v", after)
			}

			s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: handsAt(base).Now})
			if err := s.Insert(ctx, "k", session{}); !errors.Is(err, slidingttl.ErrExists) {
				t.Errorf("Insert: %v, want ErrExists", err)
			}
			if err := s.Upsert(ctx, "k", session{User: "two"}); err != nil {
				t.Fatalf("Upsert: %v", err)
			}
			if e := tbl.mustGet(t, "k"); e.Value.User != "two" || e.CreatedAt != base {
				t.Errorf("stored after Upsert: %+v", e)
			}
		})
	}
}

// TestPlainMeaning: a read accepts expiries that are clear but that DynamoDB ignores, and writes
// nothing. The next due touch writes a Number of seconds.
func TestPlainMeaning(t *testing.T) {
	expires := base.Add(time.Minute)
	for name, tt := range map[string]struct {
		ttl   types.AttributeValue
		meant driver.Instant
	}{
		"milliseconds":             {number(itoa(expires - 1)), expires - 1},
		"a String":                 {text(itoa(expires / 1000)), expires},
		"a String of milliseconds": {text(itoa(expires - 1)), expires - 1},
		"RFC 3339":                 {text((expires - 1).Time().Format(time.RFC3339Nano)), expires - 1},
	} {
		t.Run(name, func(t *testing.T) {
			tbl := open[session](t, nil)
			ctx := t.Context()
			item := attrs{"created_at": text(base.Time().Format(kit.RFC3339Milli)), "ttl": tt.ttl, versionName: number("7"), "user": text("one")}
			tbl.put(t, "k", item)
			m := driver.Meta{Life: driver.Life{CreatedAt: base, ExpiresAt: tt.meant}, Version: 7}
			if e := tbl.mustGet(t, "k"); e.Meta != m || e.Value.User != "one" {
				t.Fatalf("Get: %+v, want %+v", e, m)
			}
			found, err := tbl.GetMulti(ctx, []string{"k"})
			if err != nil || found["k"].Meta != m {
				t.Fatalf("GetMulti: %+v, %v", found, err)
			}
			tbl.wire.want(t, "Get and GetMulti", "GetItem", "BatchGetItem")

			well := func(what string, life driver.Life) {
				t.Helper()
				got, ok := tbl.raw(t, "k")["ttl"].(*types.AttributeValueMemberN)
				if !ok || got.Value != itoa(life.ExpiresAt/1000) {
					t.Fatalf("%s left the expiry as %v", what, tbl.raw(t, "k")["ttl"])
				}
				if e := tbl.mustGet(t, "k"); e.Life != life {
					t.Fatalf("after %s: %+v, want %+v", what, e.Life, life)
				}
				tbl.wire.reset()
			}
			p := slidingttl.Policy{IdleGrace: 30 * time.Second, MaxLifetime: time.Hour}
			clock := handsAt(base)
			s := openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: clock.Now})
			clock.forward(40 * time.Second)
			tbl.wire.reset()
			if _, err := s.Peek(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			tbl.wire.want(t, "Peek", "GetItem")
			for range 2 {
				if _, err := s.Get(ctx, "k"); err != nil {
					t.Fatal(err)
				}
			}
			tbl.wire.want(t, "two Gets, one of them due", "GetItem", "GetItem", "UpdateItem", "UpdateItem")
			well("a due Get", driver.Life{CreatedAt: base, ExpiresAt: base.Add(70 * time.Second)})

			to := lasting(time.Hour)
			tbl.put(t, "k", item)
			if _, err := tbl.Replace(ctx, "k", session{}, m, to, base); err != nil {
				t.Fatal(err)
			}
			well("Replace", to)

			tbl.put(t, "k", item)
			_, err = tbl.Insert(ctx, "k", session{}, to, tt.meant-1)
			wantConflict(t, "Insert over one that is alive", err, m)
			if _, err := tbl.Insert(ctx, "k", session{}, to, tt.meant); err != nil {
				t.Fatal(err)
			}
			well("Insert over one that is dead", to)

			tbl.put(t, "k", item)
			_, err = tbl.Touch(ctx, "k", m, to, tt.meant)
			wantNotFound(t, "Touch of one that is dead", err)

			// Nothing is written.
			delete(item, "created_at")
			tbl.put(t, "k", item)
			for _, foreign := range []slidingttl.Foreign{slidingttl.ReadOnly, slidingttl.Reject} {
				s := openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: clock.Now, Foreign: foreign})
				tbl.wire.reset()
				_, err := s.Get(ctx, "k")
				if want := map[slidingttl.Foreign]error{slidingttl.Reject: slidingttl.ErrForeign}[foreign]; !errors.Is(err, want) {
					t.Errorf("Foreign %d: %v, want %v", foreign, err, want)
				}
				tbl.wire.want(t, "a foreign item", "GetItem")
			}
		})
	}
}
