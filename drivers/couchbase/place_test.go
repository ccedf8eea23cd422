package couchbase

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// created_at as libraries of other languages write it.
func TestCreatedAtOfOtherLanguages(t *testing.T) {
	at := time.Date(2024, 2, 29, 13, 4, 5, 123e6, time.UTC)
	body := place{body: true, path: "created_at"}
	for _, c := range []struct {
		who, json string
		want      time.Time
	}{
		{"this driver", string(body.format(driver.Floor(at))), at},
		{"Go, time.Time", `"2024-02-29T13:04:05.123456789Z"`, at},
		{"Go, in another zone", `"2024-02-29T15:04:05.123+02:00"`, at},
		{"Go, the zero time", `"0001-01-01T00:00:00Z"`, time.Time{}},
		{"JavaScript, toISOString", `"2024-02-29T13:04:05.123Z"`, at},
		{"Java, Instant", `"2024-02-29T13:04:05.123456Z"`, at},
		{"Java, Instant on a whole second", `"2024-02-29T13:04:05Z"`, at.Truncate(time.Second)},
		{"Java, OffsetDateTime on a whole minute", `"2024-02-29T13:04Z"`, at.Truncate(time.Minute)},
		{"Jackson, java.util.Date", `"2024-02-29T13:04:05.123+0000"`, at},
		{"Python, isoformat", `"2024-02-29T13:04:05.123456"`, at},
		{"Python, isoformat with a zone", `"2024-02-29T13:04:05.123456+00:00"`, at},
		{"Python, str", `"2024-02-29 13:04:05.123456+00:00"`, at},
		{".NET, round trip", `"2024-02-29T13:04:05.1234567Z"`, at},
		{"Ruby, iso8601", `"2024-02-29T13:04:05+00:00"`, at.Truncate(time.Second)},
		{"PHP, ATOM", `"2024-02-29T08:04:05-05:00"`, at.Truncate(time.Second)},
		{"PostgreSQL, timestamptz", `"2024-02-29 13:04:05.123456+00"`, at},
		{"PHP, DateTime::ISO8601 with a space", `"2024-02-29 15:04:05+0200"`, at.Truncate(time.Second)},
		{"hours alone of the offset", `"2024-02-29T15:04:05+02"`, at.Truncate(time.Second)},
		{"minutes, and an offset without a colon", `"2024-02-29T15:04+0200"`, at.Truncate(time.Minute)},
		{"a comma, as ISO 8601 allows", `"2024-02-29T13:04:05,123Z"`, at},
		{"an escape, as JSON allows", `"2024-02-29T13:04:05.123\u005a"`, at},
		{"null", `null`, time.Time{}},
	} {
		got, err := body.parse([]byte(c.json))
		if err != nil || got != driver.Floor(c.want) {
			t.Errorf("%s, %s: %v, %v; want %v", c.who, c.json, got.Time(), err, c.want)
		}
	}
	for _, bad := range []string{`1709211845`, `1709211845123`, `"1709211845"`, `"2024-02-29"`, `"13:04:05"`, `""`, `true`, `{}`, `[]`, `"2024-02-30T00:00:00Z"`, `"1969-12-31T23:59:59Z"`} {
		if got, err := body.parse([]byte(bad)); err == nil {
			t.Errorf("%s was read as %v; it must be refused", bad, got.Time())
		}
	}
}

func TestPutEditsOneField(t *testing.T) {
	p := place{body: true, path: "created_at"}
	const at = driver.Instant(1709211845123)
	for body, want := range map[string]string{
		`{}`:                               `{"created_at":"2024-02-29T13:04:05.123Z"}`,
		" {\n } ":                          `{"created_at":"2024-02-29T13:04:05.123Z"}`,
		`{"a":1}`:                          `{"created_at":"2024-02-29T13:04:05.123Z","a":1}`,
		`{"created_at":null,"a":[1,2]}`:    `{"created_at":"2024-02-29T13:04:05.123Z","a":[1,2]}`,
		`{"a":{"created_at":1}}`:           `{"created_at":"2024-02-29T13:04:05.123Z","a":{"created_at":1}}`,
		`{"a" : 1, "created_at" : "x" }`:   `{"created_at":"2024-02-29T13:04:05.123Z","a" : 1}`,
		`{"created_at":1,"created_at":2}`:  `{"created_at":"2024-02-29T13:04:05.123Z"}`,
		`{"created\u005fat":1, ",":[]}`:    `{"created_at":"2024-02-29T13:04:05.123Z",",":[]}`,
		`{"big":9007199254740993,"z":1e2}`: `{"created_at":"2024-02-29T13:04:05.123Z","big":9007199254740993,"z":1e2}`,
	} {
		got, err := p.put([]byte(body), at)
		if err != nil || string(got) != want {
			t.Errorf("%s became %s, %v; want %s", body, got, err, want)
		}
	}
	for _, body := range []string{``, `1`, `"s"`, `[]`, `null`, `{`, `{"a"}`, `{"a":1`} {
		if got, err := p.put([]byte(body), at); err == nil {
			t.Errorf("%q became %s; it must be refused", body, got)
		}
	}
}

// In any body an edit changes only created_at, and a read returns it.
func FuzzPut(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"created_at":"x","b":{"created_at":[]}}`, ` { "a" : "\"}{" , "created_at":1}`, `{"created_at":1}`} {
		f.Add([]byte(seed), int64(1709211845123))
	}
	p := place{body: true, path: "created_at"}
	f.Fuzz(func(t *testing.T, body []byte, ms int64) {
		at := driver.Instant(ms % 4e12)
		if at <= 0 {
			at = 1
		}
		var before map[string]any
		isObject := json.Unmarshal(body, &before) == nil && before != nil
		out, err := p.put(body, at)
		if (err == nil) != isObject && isObject {
			t.Fatalf("an object was refused: %v", err)
		}
		if err != nil || !isObject {
			return
		}
		if got, err := p.within(out); err != nil || got != at {
			t.Fatalf("created_at %d was put into %q, and read from %q as %d, %v", at, body, out, got, err)
		}
		var after map[string]any
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		delete(before, "created_at")
		delete(after, "created_at")
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", body, out)
		}
	})
}

// Check ends with its context, or after a time, where the body of an answer does not come.
func TestBodyThatStalls(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			body, head := io.Pipe()
			go func() { _, _ = head.Write([]byte(`{"name":`)) }()
			began := time.Now()
			if _, err := bodyOf(ctx, body); err == nil || time.Since(began) != min(limit, settingsTimeout) {
				t.Errorf("within %v: %v after %v", limit, err, time.Since(began))
			}
		})
	}
}
