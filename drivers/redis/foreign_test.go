package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// stored returns a key's string and expiry, as other programs see them.
func (f *fixture) stored(t testing.TB, key string) (text string, expiry int64) {
	t.Helper()
	text, _ = f.command(t, "GET", key).ToString()
	expiry, err := f.command(t, "PEXPIRETIME", key).AsInt64()
	ok(t, "PEXPIRETIME", err)
	return text, expiry
}

// A record is stored as the package comment says, and the key's expiry is the record's,
// whatever wrote it.
func TestLayout(t *testing.T) {
	f := newFixture(t, redis.Options{})
	e := f.record(t, "a")
	check := func(when string, life driver.Life, version driver.Version, value string) {
		t.Helper()
		text, expiry := f.stored(t, "a")
		want := fmt.Sprintf("\x00sl1 %015d %015d %016x %s", life.CreatedAt, life.ExpiresAt, version, value)
		if text != want || expiry != int64(life.ExpiresAt) {
			t.Errorf("%s: stored is %q until %d; want %q until %d", when, text, expiry, want, life.ExpiresAt)
		}
	}
	check("Insert", e.Life, e.Version, `{"name":"kept"}`)
	now := driver.Floor(time.Now())
	var err error
	e.ExpiresAt++
	_, err = f.d.Touch(t.Context(), "a", driver.Meta{Life: driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt - 1}, Version: e.Version}, e.Life, now)
	ok(t, "Touch", err)
	check("Touch", e.Life, e.Version, `{"name":"kept"}`)
	got, touched, err := f.d.ReadTouch(t.Context(), "a", nil, anAccess(), now)
	if err != nil || !touched {
		t.Fatalf("ReadTouch: %t, %v", touched, err)
	}
	check("ReadTouch", got.Life, e.Version, `{"name":"kept"}`)
	stays := driver.Life{CreatedAt: e.CreatedAt}
	e.Version, err = f.d.Replace(t.Context(), "a", profile{"other"}, got.Meta, stays, now)
	ok(t, "Replace", err)
	text, expiry := f.stored(t, "a")
	if expiry != -1 || !strings.HasSuffix(text, `{"name":"other"}`) {
		t.Errorf("a record that never expires is stored as %q until %d", text, expiry)
	}
}

// A string of another program is adopted: its value stays, with a header before it. After a SET
// by that program it is adopted again.
func TestAdoption(t *testing.T) {
	f := newFixture(t, redis.Options{})
	s, err := slidingttl.New[profile](f.d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[profile]{TouchWait: time.Minute})
	ok(t, "slidingttl.New", err)
	defer s.Close(t.Context())
	for _, set := range [][]string{
		{"SET", "a", `{"name":"theirs"}`, "EX", "60"},
		{"SET", "a", `{"name":"anew"}`},
		{"SET", "a", `{"name":"once more"}`, "KEEPTTL"},
	} {
		f.command(t, set...)
		before := driver.Floor(time.Now())
		e, err := s.Entry(t.Context(), "a")
		ok(t, "Entry", err)
		text, expiry := f.stored(t, "a")
		if e.CreatedAt < before-1 || !strings.HasSuffix(text, " "+set[2]) || expiry != int64(e.ExpiresAt) || e.ExpiresAt != e.CreatedAt.Add(time.Hour) && e.ExpiresAt != e.CreatedAt.Add(time.Hour)+1 {
			t.Errorf("after %q the record has %+v, and is stored as %q until %d", set, e, text, expiry)
		}
	}
}

// Whatever a string of another program holds, a write planned for it lands only on that string.
func TestForeignVersion(t *testing.T) {
	f := newFixture(t, redis.Options{})
	f.command(t, "SET", secret, `{"name":"read"}`)
	e, err := f.d.Get(t.Context(), secret)
	ok(t, "Get", err)
	f.command(t, "SET", secret, `{"name":"since"}`)
	for name, call := range calls(f.d, e.Meta) {
		if name == "Insert" || name == "Delete" {
			continue
		}
		var conflict *driver.ConflictError
		if err := call(t.Context()); !errors.As(err, &conflict) || conflict.Found.Version == e.Version {
			t.Errorf("%s of what another program has overwritten: %v; want a conflict", name, err)
		}
	}
}

// No call changes a key of another type.
func TestOtherTypes(t *testing.T) {
	f := newFixture(t, redis.Options{})
	was := f.record(t, "sound").Meta
	for _, key := range []string{secret, secret + "new"} {
		f.command(t, "LPUSH", key, "theirs")
	}
	for name, call := range calls(f.d, was) {
		var invalid *driver.InvalidError
		if err := call(t.Context()); !errors.As(err, &invalid) || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%s of a list: %v; want a *driver.InvalidError", name, err)
		}
	}
	for _, key := range []string{secret, secret + "new"} {
		if n, err := f.command(t, "LLEN", key).AsInt64(); n != 1 || err != nil {
			t.Errorf("the list has %d elements, %v; want 1", n, err)
		}
	}
}

// A string that begins like a record but is none is an error, and is not changed.
func TestMalformed(t *testing.T) {
	const far = 99999999999999
	began, soon := time.Now().Add(-time.Minute).UnixMilli(), time.Now().Add(time.Minute).UnixMilli() // a touch is due
	f := newFixture(t, redis.Options{})
	was := f.record(t, "sound").Meta
	texts := []string{
		"\x00sl1 " + strings.Repeat("x", 60),
		fmt.Sprintf("\x00sl1 %015d,%015d %016x {}", 1, far, 3),
		fmt.Sprintf("\x00sl1 %015d %014d: %016x {}", 1, far, 3),
		fmt.Sprintf("\x00sl1 %015d %015d %016X {}", 1, far, 0xabcdef),
		fmt.Sprintf("\x00sl1 %015d %015d %016xx{}", began, soon, 3),
		fmt.Sprintf("\x00sl1 %015d %015d %016x {}", began, soon, 0),
	}
	for _, header := range []string{ // cut anywhere: 15 bytes may not be taken for a time
		fmt.Sprintf("\x00sl1 %015d %015d %016x ", began, soon, 3),
		fmt.Sprintf("\x00sl1 %015d %015d %016x ", far, far, 3),
		"\x00sl1 yesterday......",
	} {
		for end := len("\x00sl1 "); end < len(header) || end == 20; end++ {
			texts = append(texts, header[:end])
		}
	}
	for _, text := range texts {
		f.command(t, "SET", secret, text)
		_, err := f.d.Get(t.Context(), secret)
		_, _, err2 := f.d.ReadTouch(t.Context(), secret, nil, anAccess(), driver.Floor(time.Now()))
		_, err3 := f.d.GetMulti(t.Context(), []string{secret})
		errs := map[string]error{"Get": err, "ReadTouch": err2, "GetMulti": errors.Unwrap(asKeyError(err3))}
		now := driver.Floor(time.Now())
		_, errs["Insert"] = f.d.Insert(t.Context(), secret, profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		for _, name := range []string{"Replace", "Overwrite", "Touch", "Remove"} {
			errs[name] = calls(f.d, was)[name](t.Context())
		}
		for call, err := range errs {
			var invalid *driver.InvalidError
			if !errors.As(err, &invalid) {
				t.Errorf("%s of %q: %v; want a *driver.InvalidError", call, text, err)
			}
		}
		raw, err := f.d.Raw(t.Context(), secret)
		if err != nil || raw.Problem == nil {
			t.Errorf("Raw of %q: %+v, %v; want a problem", text, raw, err)
		}
		if left, _ := f.stored(t, secret); left != text {
			t.Errorf("%q has become %q", text, left)
		}
		if off := time.Until(f.d.Now()).Abs(); off > time.Second {
			t.Fatalf("after calls of %q the driver's time is off by %v", text, off)
		}
	}
}

// A record that loses the last byte of its header, after a touch of it was planned, is refused by that touch, and stays.
func TestHeaderCutMeanwhile(t *testing.T) {
	f := newFixture(t, redis.Options{})
	was := f.record(t, secret).Meta
	whole, _ := f.stored(t, secret)
	f.command(t, "SET", secret, whole[:53])
	_, err := f.d.Touch(t.Context(), secret, was, was.Life, driver.Floor(time.Now()))
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Touch: %v", err)
	}
	if left, _ := f.stored(t, secret); left != whole[:53] {
		t.Errorf("it has become %q", left)
	}
}

func asKeyError(err error) error {
	var one *driver.KeyError
	if errors.As(err, &one) {
		return one
	}
	return err
}

func TestGetMultiNamesPlaces(t *testing.T) {
	f := newFixture(t, redis.Options{})
	e := f.record(t, "sound")
	f.command(t, "SET", "theirs", `{"name":"theirs"}`)
	f.command(t, "SET", "odd", "no JSON")
	f.command(t, "LPUSH", "list", "x")
	found, err := f.d.GetMulti(t.Context(), []string{"odd", "sound", "", "absent", "list", "theirs", "odd"})
	var failed driver.KeyErrors
	if !errors.As(err, &failed) || len(failed) != 3 || failed[0].Index != 0 || failed[1].Index != 2 || failed[2].Index != 4 {
		t.Errorf("GetMulti: %v; want errors of keys 0, 2 and 4", err)
	}
	if len(found) != 2 || found["sound"] != e || found["theirs"].Value.Name != "theirs" {
		t.Errorf("GetMulti: %+v; want the others", found)
	}
}

func TestRaw(t *testing.T) {
	f := newFixture(t, redis.Options{})
	e := f.record(t, "a")
	raw, err := f.d.Raw(t.Context(), "a")
	if err != nil || raw.Meta != e.Meta || raw.Format != "json" || string(raw.Value) != `{"name":"kept"}` || len(raw.Fields["header"]) == 0 {
		t.Errorf("Raw: %+v, %v", raw, err)
	}
	f.command(t, "SET", "theirs", `{"name":"theirs"}`, "PXAT", "4102444800000")
	theirs, err := f.d.Get(t.Context(), "theirs")
	ok(t, "Get", err)
	raw, err = f.d.Raw(t.Context(), "theirs")
	if err != nil || raw.Meta != theirs.Meta || raw.ExpiresAt != 4102444800000 || string(raw.Value) != `{"name":"theirs"}` || raw.Fields["PEXPIRETIME"] != "4102444800000" {
		t.Errorf("Raw of another program's: %+v, %v", raw, err)
	}
	if _, err := f.d.Raw(t.Context(), "absent"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Raw of an absent key: %v", err)
	}
}

// Remove removes only the record that was read.
func TestRemove(t *testing.T) {
	f := newFixture(t, redis.Options{})
	e := f.record(t, "a")
	now := driver.Floor(time.Now())
	other := e.Meta
	other.Version++
	var conflict *driver.ConflictError
	if err := f.d.Remove(t.Context(), "a", other, now); !errors.As(err, &conflict) || conflict.Found != e.Meta {
		t.Errorf("Remove of another version: %v", err)
	}
	if err := f.d.Remove(t.Context(), "a", e.Meta, e.ExpiresAt); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Remove of a dead record: %v", err)
	}
	if got, err := f.d.Get(t.Context(), "a"); err != nil || got != e {
		t.Errorf("after them: %+v, %v", got, err)
	}
	ok(t, "Remove", f.d.Remove(t.Context(), "a", e.Meta, now))
	if err := f.d.Remove(t.Context(), "a", e.Meta, now); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Remove of a removed record: %v", err)
	}
}

// No call writes over or changes a string with the mark and another header, whatever Lua reads as a
// number.
func TestMalformedHeaders(t *testing.T) {
	s := redistest.Start(t)
	c := s.Client(t)
	d := open[profile](t, c, redis.Options{})
	ok(t, "Learn", d.Learn(t.Context()))
	for _, header := range []string{
		"001795734741801 0x0000000000001 00000000000000ff ",
		"001795734741801             1e3 00000000000000ff ",
		"001795734741801 -00000000000001 00000000000000ff ",
		"001795734741801              1. 00000000000000ff ",
		"001795734741801             9e9 00000000000000ff ",
		"0x1795734741801 009795734741801 00000000000000ff ",
		"001795734741801 000000000000001 ZZZZZZZZZZZZZZZZ ",
		"001795734741801 000000000000001 0000000000000000 ",
		"001795734741801 000000000000001_00000000000000ff ",
		"yesterday...... 000000000000001 00000000000000ff ",
		"001795734741801 000000000000001 00000000000000ff",
	} {
		text := "\x00sl1 " + header + `{"name":"kept"}`
		now := driver.Floor(time.Now())
		all := calls(d, driver.Meta{Life: driver.Life{CreatedAt: 1795734741801, ExpiresAt: now.Add(time.Minute)}, Version: 0xff})
		delete(all, "Delete")
		all["Insert"] = func(ctx context.Context) error {
			_, err := d.Insert(ctx, secret, profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
			return err
		}
		all["ReadTouch"] = func(ctx context.Context) error {
			far := anAccess()
			far.Keep, far.Stored, far.Most = 1e13, 1e13, 1e14
			_, _, err := d.ReadTouch(ctx, secret, nil, far, now)
			return err
		}
		for name, call := range all {
			ok(t, "SET", c.Do(t.Context(), c.B().Set().Key(secret).Value(text).Build()).Error())
			if err := call(t.Context()); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s over header %q: %v; want %v", name, header, err, driver.ErrInvalid)
			}
			is, err := c.Do(t.Context(), c.B().Get().Key(secret).Build()).ToString()
			gone, _ := c.Do(t.Context(), c.B().Pexpiretime().Key(secret).Build()).AsInt64()
			if err != nil || is != text || gone != -1 {
				t.Errorf("%s over header %q left %q, which expires at %d (%v)", name, header, is, gone, err)
			}
		}
	}
}

// An expiry of another program may be later than a header can say.
func TestForeignExpiryBeyondHeader(t *testing.T) {
	s := redistest.Start(t)
	c := s.Client(t)
	d := open[profile](t, c, redis.Options{})
	for _, at := range []string{"999999999999999", "1000000000000000", "9007199254740993", "9223372036854775807"} {
		for name := range calls(d, driver.Meta{}) {
			ok(t, "SET", c.Do(t.Context(), c.B().Set().Key(secret).Value(`{"name":"theirs"}`).Build()).Error())
			ok(t, "PEXPIREAT", c.Do(t.Context(), c.B().Arbitrary("PEXPIREAT", secret, at).Build()).Error())
			e, err := d.Get(t.Context(), secret)
			ok(t, "Get", err)
			raw, err := d.Raw(t.Context(), secret)
			ok(t, "Raw", err)
			for what, is := range map[string]driver.Meta{"Get": e.Meta, "Raw": raw.Meta, "Scan": scannedOne(t, d)} {
				if is.ExpiresAt != 1e15-1 {
					t.Errorf("%s of a string that expires at %s: expiry %d", what, at, is.ExpiresAt)
				}
			}
			later := driver.Life{CreatedAt: driver.Floor(time.Now()), ExpiresAt: driver.Floor(time.Now()).Add(time.Hour)}
			switch name {
			case "Touch":
				_, err = d.Touch(t.Context(), secret, e.Meta, later, later.CreatedAt)
			case "Replace":
				_, err = d.Replace(t.Context(), secret, profile{}, e.Meta, later, later.CreatedAt)
			case "Remove":
				err = d.Remove(t.Context(), secret, e.Meta, later.CreatedAt)
			case "Overwrite":
				if _, err = d.Overwrite(t.Context(), secret, profile{}, later, anAccess(), later.CreatedAt); errors.Is(err, driver.ErrConflict) {
					err = nil // with what is to be adopted
				}
			}
			ok(t, name+" of a string that expires at "+at, err)
		}
	}
}

func scannedOne(t testing.TB, d *redis.Driver[profile]) driver.Meta {
	t.Helper()
	from, err := d.Segments(t.Context(), 1)
	ok(t, "Segments", err)
	page, err := d.Scan(t.Context(), from[0], 100)
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("Scan: %+v, %v", page, err)
	}
	return page.Records[0].Meta
}

// Retire of another program's string ends its life, and where dead records are retained keeps it for
// History. A user without a right that a touch needs is told so, and the record stays as it is.
func TestRetireForeign(t *testing.T) {
	f := newFixture(t, redis.Options{Retain: time.Hour})
	s, err := slidingttl.New(f.d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
	ok(t, "New", err)
	defer func() { ok(t, "Close", s.Close(t.Context())) }()
	f.command(t, "SET", secret, `{"name":"theirs"}`)
	ok(t, "Retire", s.Retire(t.Context(), secret))
	if _, err := s.Get(t.Context(), secret); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("Get of a retired record: %v", err)
	}
	if e, err := s.History(t.Context(), secret); err != nil || e.Value.Name != "theirs" {
		t.Errorf("History of it: %+v, %v", e, err)
	}
	ok(t, "Upsert", s.Upsert(t.Context(), secret, profile{"next"}))
}

func TestTouchToThePastNeedsDelAlone(t *testing.T) {
	for _, right := range []string{"del", "setrange", "pexpireat", "set"} {
		f := newFixture(t, redis.Options{})
		f.command(t, "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-"+right)
		option := f.server.Option()
		option.Username, option.Password = "app", "any"
		d := open[profile](t, redistest.NewClient(t, option), redis.Options{})
		was := f.record(t, secret)
		text, gone := f.stored(t, secret)
		now := driver.Floor(time.Now())
		_, err := d.Touch(t.Context(), secret, was.Meta, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: now.Add(-time.Minute)}, now)
		is, at := f.stored(t, secret)
		if kept := is == text && at == gone; kept != errors.Is(err, driver.ErrRefused) || !kept && is != "" {
			t.Errorf("Touch to the past without +%s: %v, and leaves %q", right, err, is)
		}
	}
}
