package archive_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// The reports of all operations, as JSON in the order that programs know, and those of Forget read back.
func TestReportsAsJSON(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 5, 0), batch(3, 8, 0), batch(0, 2, 1), lot{Source: "links", Records: []archive.Record{{ExpiredAt: at(noon)}}})
	times, sizes := regexp.MustCompile(`"(began|ended)":"[^"]+"`), regexp.MustCompile(`"bytes":[1-9]\d+`)
	is := func(want string, r *archive.Report, err error) {
		t.Helper()
		text, failed := json.Marshal(r)
		got := sizes.ReplaceAllString(times.ReplaceAllString(string(text), `"$1":""`), `"bytes":1`)
		got = regexp.MustCompile(`(merged-\d+-\d)-\w+`).ReplaceAllString(got, "$1")
		if got != want || failed != nil {
			t.Errorf("%s, %v, %v; want %s", got, err, failed, want)
		}
	}
	stats, err := archive.NewReader(b).Stats(t.Context(), archive.Span{})
	is(`{"days":2,"first":"2026-11-22","last":"2026-11-23","files":4,"rows":12,"bytes":1,"garbage":0,"quarantined":1}`, stats, err)
	compacted, err := archive.Compact(t.Context(), b, nil)
	is(`{"days":3,"merged":1,"files":2,"into":1,"rows":10,"dropped":2}`, compacted, err)
	for _, c := range []struct{ dry, begins, ends string }{{"true", "", ""}, {"false", "", `,"left":0`}} {
		r, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(1, 0).Key, "nobody"}}, &archive.ForgetOptions{DryRun: c.dry == "true"})
		want := `{"dry_run":` + c.dry + `,"began":"","ended":"","asked":[{"key":"key-000001","records":2,"days":{"2026-11-22":1,"2026-11-23":1}},{"key":"nobody","records":0}],` +
			`"days":3,"files":2,"records":2,"no_value":0,"keyless":1` + c.ends + `}`
		is(want, r, err)
		text, err := json.Marshal(r)
		ok(t, err)
		again := new(archive.Report)
		is(want, again, json.Unmarshal(text, again))
		if again.String() != r.String() {
			t.Errorf("%q is read as %q", r, again)
		}
	}
	b.files[pick(t, b, "day=2026-11-22/merged-")[0]][9] ^= 1
	b.files["day=2026-11-22/x.parquet"] = nil
	verified, err := archive.NewReader(b).Verify(t.Context(), &archive.Walk{Span: archive.Span{To: archive.DayOf(at(noon)) - 1}})
	is(`{"days":0,"files":0,"rows":0,"bytes":0,"corrupt":null}`, verified, err)
	found, err := archive.Repair(t.Context(), b, nil)
	is(`{"applied":false,"days":1,"lost":["day=2026-11-22/merged-000002-7.parquet"],"rows":7,"restored":null,"foreign":["day=2026-11-22/x.parquet"]}`, found, err)
	now := func() time.Time { return noon.AddDate(0, 0, 3) }
	retained, err := archive.Retain(t.Context(), b, 1, &archive.Walk{Now: now, Apply: true})
	is(`{"applied":true,"before":"2026-11-24","days":2,"files":2,"rows":8,"bytes":1}`, retained, err)
	late := archive.Span{From: archive.DayOf(at(noon)) + 1}
	retained, err = archive.Retain(t.Context(), b, 1, &archive.Walk{Now: now, Span: late})
	is(`{"applied":false,"before":"2026-11-24","days":0,"files":0,"rows":0,"bytes":0}`, retained, err)
}
