package couchbase_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

var policy = slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}

// Documents stay usable by other programs: they read the driver's documents with gocb's own
// calls, and the driver reads and adopts theirs.
func TestDocumentsAreShared(t *testing.T) {
	for _, place := range []couchbase.Place{couchbase.Xattr, couchbase.Body} {
		f := open(t)
		s := newStore(t, f, newDriver[profile](t, f, &couchbase.Options{CreatedIn: place}), policy, nil)
		read := func() map[string]any {
			t.Helper()
			res, err := f.c.Get("k", nil)
			ok(t, "Get", err)
			var doc map[string]any
			ok(t, "Content", res.Content(&doc))
			return doc
		}
		ok(t, "Insert", s.Insert(t.Context(), "k", profile{Name: "ours", Count: 1}))
		doc := read()
		if doc["name"] != "ours" || doc["count"] != 1.0 {
			t.Errorf("another program reads %v", doc)
		}
		if at, has := doc["created_at"]; has != (place == couchbase.Body) || has && at != start.Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("created_at in the body is %v", at)
		}

		// Another program overwrites it whole, without an expiry. created_at stays
		// as an xattr, and in a body of which it is a field.
		doc["name"] = "theirs"
		_, err := f.c.Upsert("k", doc, nil)
		ok(t, "Upsert", err)
		f.Advance(10 * time.Minute)
		e, err := s.Entry(t.Context(), "k")
		ok(t, "Entry", err)
		want := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Ceil(f.Now()).Add(policy.IdleGrace).RoundUp(time.Second)}
		if e.Value.Name != "theirs" || e.Life != want {
			t.Errorf("after another program's overwrite: %+v; want life %+v", e, want)
		}

		// Another program creates one, with an expiry or without.
		for _, expiry := range []time.Duration{0, 20 * time.Minute} {
			_, err = f.c.Remove("k", nil)
			ok(t, "Remove", err)
			_, err = f.c.Insert("k", profile{Name: "theirs"}, &gocb.InsertOptions{Expiry: expiry})
			ok(t, "Insert", err)
			f.Advance(time.Minute)
			e, err = s.Entry(t.Context(), "k")
			ok(t, "Entry", err)
			want = driver.Life{CreatedAt: driver.Floor(f.Now()), ExpiresAt: driver.Ceil(f.Now()).Add(policy.IdleGrace).RoundUp(time.Second)}
			if e.Value.Name != "theirs" || e.Life != want {
				t.Errorf("adopted with expiry %v: %+v; want life %+v", expiry, e, want)
			}
			if expiry, _ := stored(t, f.c, "k"); expiry != int64(want.ExpiresAt)/1000 {
				t.Errorf("adopted with expiry %d; want %d", expiry, want.ExpiresAt/1000)
			}
		}
	}
}

// A body with more levels than Couchbase finds fields in is like any other, also one of the driver's
// earlier versions, which wrote created_at last. One of another program without created_at cannot be
// adopted: reads and walks refuse it, and an overwrite replaces it.
func TestDeepBody(t *testing.T) {
	type deep struct {
		Tree      json.RawMessage `json:"tree"`
		CreatedAt time.Time       `json:"created_at"`
	}
	f := open(t)
	now := driver.Floor(start)
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	tree := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, c := range []struct {
		name, body string // of another program
		created    driver.Instant
	}{
		{"ours", "", now},
		{"foreign", `{"tree":` + tree + `}`, 0},
		{"earlier", `{"tree":` + tree + `,"created_at":"` + start.Format(time.RFC3339Nano) + `"}`, now},
	} {
		d := newDriver[deep](t, f, &couchbase.Options{CreatedIn: couchbase.Body})
		v := deep{Tree: json.RawMessage(tree)}
		var err error
		if c.body == "" {
			_, err = d.Insert(t.Context(), c.name, v, life, now)
		} else {
			err = plant(t.Context(), f.c, c.name, []byte(c.body), jsonFlags, 0)
		}
		ok(t, c.name, err)
		cursors, err := d.Segments(t.Context(), 1)
		ok(t, "Segments", err)
		page, err := d.Scan(t.Context(), cursors[0], 10)
		ok(t, "Scan", err)
		if len(page.Records) != 1 || (page.Records[0].Problem != nil) != (c.created == 0) || page.Records[0].Meta.CreatedAt != c.created {
			t.Errorf("%s: a scan shows %+v; want created_at %d, and a problem only without", c.name, page.Records, c.created)
		}
		if e, err := d.Get(t.Context(), c.name); c.created == 0 && !errors.Is(err, driver.ErrInvalid) || c.created != 0 && (err != nil || e.CreatedAt != c.created || string(e.Value.Tree) != tree) {
			t.Errorf("%s: %+v, %v; want created_at %d, and an error without", c.name, e.Meta, err, c.created)
		}
		if _, err := d.Insert(t.Context(), c.name, v, life, now); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("%s: an insert over it: %v; want a conflict", c.name, err)
		}
		var found driver.Instant
		m, err := d.Upsert(t.Context(), c.name, v, nil, func(was *driver.Meta) (driver.Life, error) {
			if was != nil {
				found = was.CreatedAt
			}
			return life, nil
		}, now)
		if err != nil || found != c.created {
			t.Errorf("%s: an upsert finds created_at %d, %v; want %d", c.name, found, err, c.created)
		}
		if e, err := d.Get(t.Context(), c.name); err != nil || e.Version != m.Version || e.CreatedAt != now || string(e.Value.Tree) != tree {
			t.Errorf("%s: after an upsert: %+v, %v; want %+v", c.name, e.Meta, err, m)
		}
		ok(t, "Delete", d.Delete(t.Context(), c.name))
	}
}

// A body has one created_at, however the encoder writes the field's name.
func TestEscapedName(t *testing.T) {
	type doc struct {
		Born time.Time `json:"a&b"`
		Name string
	}
	f := open(t)
	d := newDriver[doc](t, f, &couchbase.Options{CreatedIn: couchbase.Body, CreatedPath: "a&b"})
	now := driver.Floor(start)
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	version, err := d.Insert(t.Context(), "k", doc{Name: "n", Born: time.Unix(0, 0)}, life, now)
	ok(t, "Insert", err)
	_, err = d.Replace(t.Context(), "k", doc{Name: "n"}, driver.Meta{Life: life, Version: version}, life, now)
	ok(t, "Replace", err)
	e, err := d.Get(t.Context(), "k")
	ok(t, "Get", err)
	if !e.Value.Born.Equal(now.Time()) || e.CreatedAt != now {
		t.Errorf("%+v; want both created_at %v", e, now.Time())
	}
}

// A body that cannot hold the field is refused when it is read, with a reason, and no operation
// is sent that the server would refuse. It can be overwritten.
func TestBodyMustBeAnObject(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[json.RawMessage](t, f, &couchbase.Options{CreatedIn: couchbase.Body}), policy, nil)
	for body, value := range map[string]string{
		`["an array"]`: "an array",
		` 17`:          "a number",
		`null`:         "null",
		`"a text"`:     "a string of 6 bytes",
		"\x00":         "1 bytes",
		"":             "0 bytes",
	} {
		ok(t, "plant", plant(t.Context(), f.c, "k", []byte(body), jsonFlags, 0))
		var err error
		counts := f.during(func() { _, err = s.Get(t.Context(), "k") })
		var invalid *driver.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "stored value" || invalid.Value != value || !strings.Contains(invalid.Rule, "object") {
			t.Errorf("Get of %q: %v; want that the stored value, %s, must be an object", body, err, value)
		}
		if want := (couchbasetest.Counts{LookupIn: 1}); counts != want {
			t.Errorf("Get of %q: the node counted %+v; want %+v", body, counts, want)
		}
		ok(t, "Upsert", s.Upsert(t.Context(), "k", json.RawMessage(`{}`)))
		_, err = s.Get(t.Context(), "k")
		ok(t, "Get after Upsert", err)
	}
}

// A document that no read accepts is malformed for walks too, and Adopt passes by any number of them.
func TestWalksRefuseWhatReadsRefuse(t *testing.T) {
	const object = `{"created_at":null}`
	for place, broken := range map[couchbase.Place][]struct{ body, root, field string }{
		couchbase.Xattr: {{object, `"text"`, "xattr slidingttl.created_at"}, {object, `[1]`, "xattr slidingttl.created_at"}},
		couchbase.Body: {
			{object, `"text"`, "xattr slidingttl.touched_at"}, {`{}`, `[1]`, "xattr slidingttl.touched_at"},
			{`["an array"]`, "", "stored value"}, {` 17`, "", "stored value"}, {`null`, "", "stored value"}, {`"a text"`, "", "stored value"},
			{"\x00", "", "stored value"}, {`{"a":`, "", "stored value"}, {"", "", "stored value"},
		},
	} {
		f := open(t)
		d := newDriver[json.RawMessage](t, f, &couchbase.Options{CreatedIn: place})
		const records = 40 // of each: more than the failures in a row that end a walk
		for n := range records {
			ok(t, "plant", plant(t.Context(), f.c, fmt.Sprintf("sound-%d", n), []byte(object), jsonFlags, 0))
			for i, b := range broken {
				key := fmt.Sprintf("%d-%d", i, n)
				ok(t, "plant", plant(t.Context(), f.c, key, []byte(b.body), jsonFlags, 0))
				if b.root != "" {
					_, err := f.c.MutateIn(key, []gocb.MutateInSpec{gocb.UpsertSpec("slidingttl", json.RawMessage(b.root), &gocb.UpsertSpecOptions{IsXattr: true})}, nil)
					ok(t, "MutateIn", err)
				}
			}
		}
		for i, b := range broken {
			_, err := d.Get(t.Context(), fmt.Sprintf("%d-0", i))
			raw, rerr := d.Raw(t.Context(), fmt.Sprintf("%d-0", i))
			ok(t, "Raw", rerr)
			_, merr := d.Mend(t.Context(), fmt.Sprintf("%d-0", i), true)
			for what, err := range map[string]error{"Get": err, "Raw": raw.Problem, "Mend": merr} {
				var invalid *driver.InvalidError
				if !errors.As(err, &invalid) || invalid.Field != b.field {
					t.Errorf("place %d, %s of %q with xattr slidingttl of %q: %v; want an InvalidError for the %s", place, what, b.body, b.root, err, b.field)
				}
			}
		}
		for _, apply := range []bool{false, true} {
			r, err := upkeep.Adopt(t.Context(), d, policy, &upkeep.AdoptOptions{WriteOptions: upkeep.WriteOptions{Options: upkeep.Options{Now: f.Now}, Apply: apply}})
			if err != nil || !r.Done || r.Counts["adopted"] != records || r.Counts["malformed"] != int64(records*len(broken)) || r.Failed != 0 {
				t.Errorf("place %d, Adopt with Apply %t: adopted %d, malformed %d, failed %d, done %t, %v; want %d, %d, 0, true", place, apply, r.Counts["adopted"], r.Counts["malformed"], r.Failed, r.Done, err, records, records*len(broken))
			}
		}
	}
}

// A touch does not write the body, not even its created_at.
func TestTouchLeavesTheBody(t *testing.T) {
	const body = `{ "created_at":"2026-05-17T11:29:00.123456+02:00",  "name": "as it was" }`
	for _, c := range []struct {
		opts couchbase.Options
		body string
	}{
		{couchbase.Options{CreatedIn: couchbase.Body}, body},
		{couchbase.Options{}, body},
		{couchbase.Options{}, `"not an object"`},
	} {
		f := open(t)
		ok(t, "plant", plant(t.Context(), f.c, "k", []byte(c.body), jsonFlags, 0))
		s := newStore(t, f, newDriver[json.RawMessage](t, f, &c.opts), policy, nil)
		for range 3 {
			f.Advance(time.Minute)
			before := f.Counts()
			_, err := s.Touch(t.Context(), "k")
			ok(t, "Touch", err)
			if n := f.Counts().Since(before).Mutations; n != 1 {
				t.Fatalf("a touch made %d mutations", n)
			}
			res, err := f.c.Get("k", &gocb.GetOptions{Transcoder: gocb.NewRawJSONTranscoder()})
			ok(t, "Get", err)
			var got []byte
			ok(t, "Content", res.Content(&got))
			if string(got) != c.body {
				t.Errorf("after a touch the body is %s; was %s", got, c.body)
			}
		}
	}
}

// A document that is not JSON has the flags by which other programs know its type.
func TestBinaryDocuments(t *testing.T) {
	f := open(t)
	opts := &couchbase.Options{Transcoder: gocb.NewRawBinaryTranscoder()}
	s := newStore(t, f, newDriver[[]byte](t, f, opts), policy, nil)
	check := func(what, want string) {
		t.Helper()
		res, err := f.c.Get("k", &gocb.GetOptions{Transcoder: gocb.NewRawBinaryTranscoder()})
		ok(t, what, err)
		var got []byte
		if err := res.Content(&got); err != nil || string(got) != want {
			t.Errorf("%s: another program reads %q, %v; want %q", what, got, err, want)
		}
		e, err := s.Peek(t.Context(), "k")
		if err != nil || string(e.Value) != want || e.CreatedAt == 0 {
			t.Errorf("%s: the store reads %+v, %v; want %q", what, e, err, want)
		}
	}
	ok(t, "Insert", s.Insert(t.Context(), "k", []byte("\x00one")))
	check("Insert", "\x00one")
	ok(t, "Upsert", s.Upsert(t.Context(), "k", []byte("\xfftwo")))
	check("Upsert", "\xfftwo")
	f.Advance(time.Minute)
	_, err := s.Get(t.Context(), "k")
	ok(t, "Get", err)
	check("a touch", "\xfftwo")

	// One that another program wrote keeps its type when it is adopted and overwritten.
	flags := gocbcore.EncodeCommonFlags(gocbcore.BinaryType, gocbcore.NoCompression)
	ok(t, "plant", plant(t.Context(), f.c, "k", []byte("theirs"), flags, 0))
	ok(t, "Upsert", newStore(t, f, newDriver[[]byte](t, f, opts), policy, nil).Upsert(t.Context(), "k", []byte("ours")))
	check("adoption by Upsert", "ours")

	// If the second write of a creation is lost, the driver still reads the document, and the
	// next write completes it.
	ok(t, "Delete", s.Delete(t.Context(), "k"))
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpReplace}, Status: memd.StatusInternalError}))
	ok(t, "Insert", s.Insert(t.Context(), "k", []byte("three")))
	if left := f.ClearFaults(); left != 0 {
		t.Fatal("the fault did not strike")
	}
	if v, err := s.Get(t.Context(), "k"); err != nil || string(v) != "three" {
		t.Errorf("Get without flags: %q, %v", v, err)
	}
	ok(t, "Upsert", s.Upsert(t.Context(), "k", []byte("four")))
	check("Upsert", "four")
}

// One transcoder may write documents of several types. Each overwrite moves the expiry, and so is a
// sub-document write, which keeps the document's flags.
func TestTypesMayChange(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[any](t, f, &couchbase.Options{Transcoder: gocb.NewLegacyTranscoder()}), policy, nil)
	for _, v := range []any{[]byte("bytes"), "text", map[string]any{"a": 1.0}, []byte("bytes again"), "text again"} {
		f.Advance(time.Minute)
		ok(t, "Upsert", s.Upsert(t.Context(), "k", v))
		got, err := s.Get(t.Context(), "k")
		want, _ := json.Marshal(v)
		if have, _ := json.Marshal(got); err != nil || string(have) != string(want) {
			t.Errorf("%#v came back as %#v, %v", v, got, err)
		}
		res, err := f.c.Get("k", &gocb.GetOptions{Transcoder: gocb.NewLegacyTranscoder()})
		ok(t, "gocb's Get", err)
		var theirs any
		err = res.Content(&theirs)
		if have, _ := json.Marshal(theirs); err != nil || string(have) != string(want) {
			t.Errorf("another program reads %#v as %#v, %v", v, theirs, err)
		}
	}
}

// An overwrite of a document with flags of another type leaves flags that gocb reads with the value,
// whichever call found the document.
func TestFlagsOfAnotherType(t *testing.T) {
	ours := profile{Name: "ours"}
	for layout, o := range map[string]couchbase.Options{
		"xattr": {}, "retained": {Retain: time.Hour},
		"body": {CreatedIn: couchbase.Body}, "body, retained": {CreatedIn: couchbase.Body, Retain: time.Hour},
	} {
		f := open(t)
		for way, write := range map[string]func(s *slidingttl.Store[profile]) error{
			"upsert": func(s *slidingttl.Store[profile]) error { return s.Upsert(t.Context(), "k", ours) },
			"upsert of a known record": func(s *slidingttl.Store[profile]) error {
				_, err := s.Get(t.Context(), "k")
				f.Advance(time.Minute)
				return errors.Join(err, s.Upsert(t.Context(), "k", ours))
			},
			"update": func(s *slidingttl.Store[profile]) error {
				_, err := s.Update(t.Context(), "k", func(profile) (profile, error) { return ours, nil })
				return err
			},
		} {
			for _, flags := range []uint32{packedFlags, textFlags, 1 << 29, 7} {
				s := newStore(t, f, newDriver[profile](t, f, &o), policy, nil)
				ok(t, "plant", plant(t.Context(), f.c, "k", []byte(`{"name":"theirs"}`), flags, 0))
				ok(t, way, write(s))
				before, err := s.Peek(t.Context(), "k")
				ok(t, "Peek", err)
				var theirs profile
				res, err := f.c.Get("k", nil)
				ok(t, "gocb's Get", err)
				if err := res.Content(&theirs); err != nil || theirs != ours || before.Value != ours || before.CreatedAt == 0 {
					t.Errorf("%s, %s over flags %#x: another program reads %+v, %v; the store %+v", layout, way, flags, theirs, err, before)
				}
				f.Advance(time.Minute)
				ok(t, "Upsert", s.Upsert(t.Context(), "k", ours))
				if after, err := s.Peek(t.Context(), "k"); err != nil || after.CreatedAt != before.CreatedAt || after.ExpiresAt != before.ExpiresAt.Add(time.Minute) {
					t.Errorf("%s, %s: the life was %+v, and became %+v, %v", layout, way, before.Life, after.Life, err)
				}
			}
		}
	}
}

// An overwrite that moves the expiry looks at the flags in the same wait. It takes a second write only if they are
// of another type, or could not be read.
func TestFlagsInOneWait(t *testing.T) {
	const legacyJSON = 6 // of SDKs before gocb
	f := open(t)
	type counts = couchbasetest.Counts
	for _, c := range []struct {
		name    string
		flags   uint32
		refused bool // the lookup
		want    counts
		waits   []uint64
	}{
		{"none", 0, false, counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, []uint64{2}},
		{"JSON", jsonFlags, false, counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, []uint64{2}},
		{"JSON of older SDKs", jsonFlags | legacyJSON, false, counts{LookupIn: 1, MutateIn: 1, Mutations: 1}, []uint64{2}},
		{"binary", packedFlags, false, counts{LookupIn: 1, MutateIn: 1, Replace: 1, Mutations: 2}, []uint64{2, 1}},
		{"unreadable", packedFlags, true, counts{LookupIn: 1, MutateIn: 1, Replace: 1, Mutations: 2}, []uint64{2, 1}},
	} {
		s := newStore(t, f, newDriver[profile](t, f, nil), policy, nil)
		ok(t, "plant", plant(t.Context(), f.c, "k", []byte(`{"name":"theirs"}`), c.flags, 0))
		_, err := s.Get(t.Context(), "k")
		ok(t, "Get", err)
		f.Advance(time.Minute)
		if c.refused {
			ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpLookupIn}, Status: memd.StatusInternalError}))
		}
		got := f.during(func() {
			ok(t, c.name, f.waits(t, c.waits, func() error { return s.Upsert(t.Context(), "k", profile{Name: "ours"}) }))
		})
		if left := f.ClearFaults(); left != 0 {
			t.Errorf("%s: the fault did not strike", c.name)
		}
		if got != c.want {
			t.Errorf("%s: the node counted %+v; want %+v", c.name, got, c.want)
		}
		var theirs profile
		res, err := f.c.Get("k", nil)
		ok(t, "gocb's Get", err)
		if err := res.Content(&theirs); err != nil || theirs.Name != "ours" {
			t.Errorf("%s: another program reads %+v, %v", c.name, theirs, err)
		}
	}
}

// A record that is dead by the application's clock but not by the server's is replaced, at the
// server too.
func TestInsertOverDeadRecord(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	now := driver.Floor(start)
	old := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Minute).RoundUp(time.Second)}
	_, err := d.Insert(t.Context(), "k", profile{Name: "old"}, old, now)
	ok(t, "Insert", err)
	life := driver.Life{CreatedAt: old.ExpiresAt, ExpiresAt: old.ExpiresAt.Add(time.Hour)}
	counts := f.during(func() {
		_, err = d.Insert(t.Context(), "k", profile{Name: "new"}, life, old.ExpiresAt)
	})
	ok(t, "Insert over a dead record", err)
	if want := (couchbasetest.Counts{MutateIn: 2, LookupIn: 2, Mutations: 1}); counts != want {
		t.Errorf("the node counted %+v; want %+v", counts, want)
	}
	if e, err := d.Get(t.Context(), "k"); err != nil || e.Value.Name != "new" || e.Life != life {
		t.Errorf("the record is %+v, %v", e, err)
	}
	if _, err := d.Insert(t.Context(), "k", profile{}, life, life.CreatedAt); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("Insert over a live record: %v", err)
	}
}

// A document that is full takes no touch, which is that document's fault.
func TestFullDocument(t *testing.T) {
	f := open(t)
	d := newDriver[[]byte](t, f, &couchbase.Options{Transcoder: gocb.NewRawBinaryTranscoder()})
	flags := gocbcore.EncodeCommonFlags(gocbcore.BinaryType, gocbcore.NoCompression)
	ok(t, "plant", plant(t.Context(), f.c, "full", make([]byte, 20<<20), flags, 0))
	ok(t, "plant", plant(t.Context(), f.c, "sound", []byte("x"), flags, 0))
	e, err := d.Get(t.Context(), "full")
	ok(t, "Get", err)
	now := driver.Floor(start)
	_, err = d.Touch(t.Context(), "full", e.Meta, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
	var invalid *driver.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(invalid.Rule, "20 MiB") {
		t.Errorf("Touch: %v; want an InvalidError that names the limit", err)
	}
	options := upkeep.AdoptOptions{WriteOptions: upkeep.WriteOptions{Options: upkeep.Options{Now: f.Now}, Apply: true}}
	r, err := upkeep.Adopt(t.Context(), d, policy, &options)
	if err != nil || !r.Done || r.Counts["adopted"] != 1 || r.Failed != 1 {
		t.Errorf("Adopt: %+v, failed %d, done %t, %v; want the sound one adopted, and one failed", r.Counts, r.Failed, r.Done, err)
	}
}
