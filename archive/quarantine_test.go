package archive_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var quarantine = archive.Span{From: archive.Quarantine, To: archive.Quarantine}

// Of an archive that has a quarantine only, no days are told.
func TestQuarantineOnly(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), lot{Source: "links", Records: []archive.Record{{Key: "x"}}})
	s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
	ok(t, err)
	if text := s.String(); !strings.HasPrefix(text, "no days\n0 rows in 1 files") || !strings.Contains(text, "1 records in quarantine") {
		t.Error(text)
	}
}

// A record that cannot be archived stops no other. It goes to the quarantine once, however often it
// is handed over, and is counted, found, verified and forgotten like the rest.
func TestQuarantine(t *testing.T) {
	b := newFake()
	o := &archive.WriterOptions{
		Now: func() time.Time { return noon.AddDate(0, 0, 7) },
		Columns: []archive.Column{archive.NewColumn("n", func(r *archive.Record) (string, bool, error) {
			switch string(r.Value) {
			case "cannot be computed":
				return "", true, errors.New("it cannot be computed")
			case "not text":
				return "\xff", true, nil
			}
			return "1", true, nil
		})},
	}
	w, err := archive.NewWriter(b, o)
	ok(t, err)
	harm := map[string]func(r *archive.Record){
		"must have at least one byte": func(r *archive.Record) { r.Key = "" },
		"Record.ExpiredAt is zero":    func(r *archive.Record) { r.ExpiredAt = 0 },
		"Record.Reason":               func(r *archive.Record) { r.Reason = "boredom" },
		"Record.Generation":           func(r *archive.Record) { r.Generation = "\xff" },
		"Record.Format":               func(r *archive.Record) { r.Format = "\xff" },
		"created_at is odd":           func(r *archive.Record) { r.Problem = errors.New("created_at is odd") },
		"it cannot be computed":       func(r *archive.Record) { r.Value = []byte("cannot be computed") },
		"column n":                    func(r *archive.Record) { r.Value = []byte("not text") },
		"empty":                       func(r *archive.Record) { r.Key, r.Value = "", []byte("another without a key") },
	}
	cut := batch(0, 100, 0)
	keys := map[string]string{} // with the value, by the problem
	for i, problem := range slices.Sorted(maps.Keys(harm)) {
		r := dead(200+i, 0)
		harm[problem](&r)
		keys[problem] = r.Key
		cut.Records = slices.Insert(cut.Records, 10*i, r)
	}
	write(t, w, cut)
	if s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || s.Rows != int64(len(cut.Records)-len(harm)) || s.Counts["quarantined"] != int64(len(harm)) {
		t.Errorf("%+v, %v", s, err)
	}
	again, err := archive.NewWriter(b, o)
	ok(t, err)
	write(t, again, cut)
	part := cut
	part.Records = cut.Records[:50] // cut otherwise
	write(t, again, part)
	for range 2 {
		r := archive.NewReader(b)
		days, aside := 0, map[string]archive.Archived{}
		for _, a := range all(t, b) {
			problem, bad := a.Columns["problem"]
			if !bad {
				days++
				continue
			}
			aside[fmt.Sprint(problem)] = a
		}
		if days != 100 || len(aside) < len(harm)-1 {
			t.Errorf("%d records are archived and %d set aside", days, len(aside))
		}
		for text, a := range aside {
			found := false
			for problem, key := range keys {
				found = found || strings.Contains(text, problem) && a.Key == key && len(a.Value) > 0
			}
			if !found || a.ArchivedAt != at(noon.AddDate(0, 0, 7)) {
				t.Errorf("set aside because of %q is %+v", text, a)
			}
		}
		n := 0
		for _, err := range r.All(t.Context(), quarantine) {
			ok(t, err)
			n++
		}
		for _, err := range r.All(t.Context(), archive.Span{To: archive.DayOf(at(noon)) + 1000}) {
			ok(t, err)
			n += 1000
		}
		if want := 100000 + len(harm); n != want {
			t.Errorf("of the quarantine and the days %d; want %d", n, want)
		}
		if found, err := r.Find(t.Context(), "", archive.Span{}); err != nil || len(found) != 2 {
			t.Errorf("without a key %d are found, %v; want 2", len(found), err)
		}
		report, err := r.Verify(t.Context(), nil)
		ok(t, err)
		if s, err := r.Stats(t.Context(), archive.Span{}); err != nil || report.Bytes != s.Bytes || report.Files != s.Files {
			t.Errorf("verified are %+v, of %+v, %v", report, s, err)
		}
		compact(t, b)
	}
	s, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
	ok(t, err)
	if s.Days != 1 || s.Rows != 100 || s.Counts["quarantined"] != int64(len(harm)) || s.Span.To != archive.DayOf(at(noon)) {
		t.Errorf("%+v", s)
	}
	late := func() time.Time { return noon.AddDate(0, 0, 20) }
	_, err = archive.Retain(t.Context(), b, 5, &archive.Walk{Apply: true, Now: late})
	ok(t, err)
	for _, key := range keys {
		if key != "" {
			r, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil)
			ok(t, err)
			if r.Counts["keyless"] != 2 || !strings.Contains(r.String(), "2 records of the quarantine have no key, were not searched") {
				t.Errorf("%+v", r)
			}
		}
	}
	left := all(t, b)
	if len(left) != 2 || left[0].Key != "" || left[1].Key != "" { // no key selects those without one
		t.Errorf("left is %+v", left)
	}
}

// A record that its source cannot read goes to the quarantine with the source's problem.
func TestGraveQuarantines(t *testing.T) {
	b := newFake()
	archiver := &archive.Archiver{Writer: writer(t, b), Source: "links"}
	ok(t, archiver.Archive(t.Context(), []driver.Dead{
		{Key: "a", At: at(noon)},
		{Key: "b", Raw: driver.Raw{Value: []byte("v"), Problem: errors.New("created_at must be a number")}},
		{Raw: driver.Raw{Value: []byte("v")}, At: at(noon)},
	}))
	found := all(t, b)
	if len(found) != 3 || found[0].Key != "a" || found[1].Key != "" || found[2].Columns["problem"] != "created_at must be a number" || string(found[2].Value) != "v" {
		t.Errorf("%+v", found)
	}
}

// Deaths by 1970-01-01, as that of a program whose times are Go's zero time or a small number, are
// no day's: they go to the quarantine, once, and neither a repair nor retention removes them.
func TestDeathsWithoutADay(t *testing.T) {
	for _, at := range []driver.Instant{driver.Instant(time.Time{}.UnixMilli()), driver.Instant(time.Time{}.UnixMilli()) + 1, -1, 1, 86_399_999} {
		b := newFake()
		dead := driver.Dead{Key: "ann", At: at, Raw: driver.Raw{Meta: driver.Meta{Life: driver.Life{CreatedAt: min(at, -1), ExpiresAt: at}}}}
		for range 2 {
			archiver := &archive.Archiver{Writer: writer(t, b), Source: "links"}
			ok(t, archiver.Archive(t.Context(), []driver.Dead{dead}))
		}
		_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		ok(t, err)
		_, err = archive.Retain(t.Context(), b, 10, &archive.Walk{Apply: true})
		ok(t, err)
		found, err := archive.NewReader(b).Find(t.Context(), "ann", quarantine)
		ok(t, err)
		if len(found) != 1 || found[0].ExpiredAt != at || len(b.files) != 1 {
			t.Errorf("dead at %d: found %+v in %q", at, found, slices.Sorted(maps.Keys(b.files)))
		}
		_, err = archive.Forget(t.Context(), b, archive.Selection{Keys: []string{"ann"}}, nil)
		ok(t, err)
	}
}
