package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestOptions(t *testing.T) {
	for field, o := range map[string]Options{
		"Options.PartitionKey":         {PartitionKey: make([]KeyProperty, 4)},
		"Options.PartitionKey[0].Path": {PartitionKey: []KeyProperty{{Path: "tenant"}}},
		"Options.PartitionKey[1].Path": {PartitionKey: []KeyProperty{{Path: "/a"}, {Path: "/a"}}},
		"Options.PartitionKey[0].Of":   {PartitionKey: []KeyProperty{{Path: "/id", Of: Fixed("a")}}},
		"Options.CreatedAt":            {CreatedAt: "it's"},
		"Options.ExpiresAt":            {ExpiresAt: "created_at"},
		"Options.Version":              {Version: "_etag"},
		"Options.MaxSkew":              {MaxSkew: -1},
	} {
		_, err := New[session](&azcosmos.ContainerClient{}, &o)
		wantInvalid(t, field, err, field)
	}
	of := Fixed("acme")
	for name, c := range map[string]struct {
		field string // none: accepted
		opts  Options
	}{
		"below created_at":         {"Options.CreatedAt", Options{PartitionKey: []KeyProperty{{Path: "/created_at/tenant", Of: of}}}},
		"below a renamed property": {"Options.ExpiresAt", Options{PartitionKey: []KeyProperty{{Path: "/dies/tenant", Of: of}}, ExpiresAt: "dies"}},
		"below the version":        {"Options.Version", Options{PartitionKey: []KeyProperty{{Path: "/slidingttl_version/a/b", Of: of}}}},
		"below ttl":                {"Options.PartitionKey[0].Path", Options{PartitionKey: []KeyProperty{{Path: "/ttl/tenant", Of: of}}}},
		"below id":                 {"Options.PartitionKey[1].Path", Options{PartitionKey: []KeyProperty{{Path: "/id"}, {Path: "/id/tenant", Of: of}}}},
		"below another level":      {"Options.PartitionKey[1].Path", Options{PartitionKey: []KeyProperty{{Path: "/a", Of: of}, {Path: "/a/b", Of: of}}}},
		"above another level":      {"Options.PartitionKey[1].Path", Options{PartitionKey: []KeyProperty{{Path: "/a/b/c", Of: of}, {Path: "/a/b", Of: of}}}},
		"twice":                    {"Options.PartitionKey[1].Path", Options{PartitionKey: []KeyProperty{{Path: "/a/b", Of: of}, {Path: "/a/b", Of: of}}}},
		"beside another level":     {"", Options{PartitionKey: []KeyProperty{{Path: "/a/b", Of: of}, {Path: "/a/bc"}, {Path: "/id"}}}},
		"an old property's name":   {"", Options{PartitionKey: []KeyProperty{{Path: "/created_at/tenant", Of: of}}, CreatedAt: "born"}},
	} {
		d, err := New[session](&azcosmos.ContainerClient{}, &c.opts)
		if c.field != "" {
			wantInvalid(t, name, err, c.field, "a property of its own")
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if query, _ := d.query(mark{}); strings.Count(query, `c["a"]`) > 1 {
			t.Errorf("%s: a scan selects a property twice: %s", name, query)
		}
	}
	for _, path := range []string{`/"tenant-id"`, `/owner/'id'`, "/ tenant"} { // which the service calls tenant-id, id and tenant
		_, err := New[session](&azcosmos.ContainerClient{}, &Options{PartitionKey: []KeyProperty{{Path: path, Of: of}}})
		wantInvalid(t, path, err, "Options.PartitionKey[0].Path", "without quotes")
	}
	_, err := New[session](nil, nil)
	wantInvalid(t, "no client", err, "client")
	for property, err := range map[string]error{
		"created_at": newOnly[struct{ Created_at int }](),
		"expires_at": newOnly[struct{ EXPIRES_AT bool }](),
		"ttl":        newOnly[struct{ TTL string }](),
		"id":         newOnly[struct{ ID string }](),
		"_etag": newOnly[struct {
			Tag string `json:"_ETag"`
		}](),
		"slidingttl_version": newOnly[struct {
			Version int64 `json:"slidingttl_version"`
		}](),
	} {
		wantInvalid(t, "a T that does not suit "+property, err, fmt.Sprintf("property %q", property), "rename")
	}
	wantInvalid(t, "a T that cannot write the _etag that it has read", newOnly[struct {
		Tag unescaped `json:"_etag"`
	}](), `property "_etag"`, "rename")
	type sums struct{ Sums map[string]big.Int }
	wantInvalid(t, "a T that JSON does not keep", newOnly[sums](), "T", "big.Int by pointer")
	if _, err := New[sums](&azcosmos.ContainerClient{}, &Options{Codec: struct{ kit.JSON }{}}); err != nil {
		t.Errorf("a T of a codec of its own: %v", err)
	}
	if err := newOnly[struct {
		ID        netip.Addr `json:"id"`
		CreatedAt time.Time  `json:"created_at"`
		ExpiresAt time.Time  `json:"expires_at"`
		TTL       int        `json:"ttl"`
	}](); err != nil {
		t.Errorf("a T that holds what the driver writes: %v", err)
	}
}

// unescaped is text that it encodes by itself, unless there is a quote in it.
type unescaped string

func (u unescaped) MarshalJSON() ([]byte, error) { return []byte(`"` + u + `"`), nil }

// latin1 encodes by itself.
type latin1 struct{ kit.JSON }

func (latin1) Encode(any) ([]byte, error) { return []byte("{\"a\":\"\xe9\"}"), nil }

// What a codec of its own encodes must be UTF-8.
func TestCodecWritesUTF8(t *testing.T) {
	f := open[session](t, &Options{Codec: latin1{}})
	_, err := f.Insert(t.Context(), "k", session{}, driver.Life{}, 0)
	wantInvalid(t, "Insert", err, "value", "UTF-8")
}

// A field for ttl must hold both 68 years and -1, which the driver writes for an expiry beyond them.
func TestNarrowTTL(t *testing.T) {
	type narrow[N any] struct {
		TTL N `json:"ttl"`
	}
	for kind, err := range map[string]error{
		"uint32": newOnly[narrow[uint32]](), "*uint64": newOnly[narrow[*uint64]](), "int16": newOnly[narrow[int16]](),
	} {
		wantInvalid(t, kind, err, `property "ttl"`, "cannot hold what the driver writes")
	}
	if err := newOnly[narrow[int32]](); err != nil {
		t.Errorf("int32: %v", err)
	}
}

// A key that only some T hold is refused by the write.
func TestTypedKey(t *testing.T) {
	type host struct {
		ID netip.Addr `json:"id"`
	}
	f := open[host](t, nil)
	v := host{netip.MustParseAddr("10.0.0.1")}
	f.mustInsert(t, "10.0.0.1", v, lasting(time.Hour), base)
	if e := f.mustGet(t, "10.0.0.1"); e.Value != v {
		t.Errorf("read %+v", e)
	}
	_, err := f.Insert(t.Context(), "localhost", v, lasting(time.Hour), base)
	wantInvalid(t, "a key that the field cannot hold", err, "value", "key")
}

func newOnly[T any]() error {
	_, err := New[T](&azcosmos.ContainerClient{}, nil)
	return err
}

func TestKeys(t *testing.T) {
	f := open[session](t, nil)
	for _, key := range []string{"", "a/b", `a\b`, "a?b", "a#b", "a ", "a\n", "a\x00", "a\xff", ".", "..", strings.Repeat("k", maxID+1)} {
		_, err := f.Get(t.Context(), key)
		wantInvalid(t, fmt.Sprintf("a key of %d bytes", len(key)), err, "key")
		if key != "" && strings.Contains(err.Error(), key) && len(key) > 2 {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
	// Characters that a header and a path must carry unchanged.
	for _, key := range []string{"🙂", "日本語", "a%2Fb", "a b", `a"b`, "a+b", "...", "\u200b", "~"} {
		m := f.mustInsert(t, key, session{User: key}, lasting(time.Hour), base)
		if got := f.mustGet(t, key); got.Meta != m || got.Value.User != key {
			t.Errorf("key %q: Get returns %+v", key, got)
		}
		if _, err := f.Touch(t.Context(), key, m, lasting(2*time.Hour), base); err != nil {
			t.Errorf("key %q: Touch: %v", key, err)
		}
	}
	if two, err := f.GetMulti(t.Context(), []string{"🙂", "a/b", "日本語"}); len(two) != 2 {
		t.Errorf("GetMulti returns %v, %v", two, err)
	} else if bad := (driver.KeyErrors)(nil); !errors.As(err, &bad) || len(bad) != 1 || bad[0].Index != 1 {
		t.Errorf("GetMulti: error %v, want one of the second key", err)
	}
}

func TestNestedPartitionKey(t *testing.T) {
	type owned struct {
		Owner struct {
			Tenant string `json:"tenant"`
		} `json:"owner"`
	}
	f := open[owned](t, &Options{PartitionKey: []KeyProperty{{Path: "/owner/tenant", Of: func(key string) string { return key[:4] }}}})
	var v owned
	_, err := f.Insert(t.Context(), "acme-1", v, lasting(time.Hour), base)
	wantInvalid(t, "a value without its partition key", err, "value", "/owner/tenant")
	v.Owner.Tenant = "acme"
	m := f.mustInsert(t, "acme-1", v, lasting(time.Hour), base)
	if got := f.mustGet(t, "acme-1"); got.Meta != m || got.Value != v {
		t.Errorf("Get returns %+v", got)
	}
	if got, err := f.GetMulti(t.Context(), []string{"acme-1"}); err != nil || got["acme-1"].Meta != m {
		t.Errorf("GetMulti returns %+v, %v", got, err)
	}
}

// The driver's properties in a T are not written; all others are, in the container's shape.
func TestStoredShape(t *testing.T) {
	f := open[map[string]any](t, &Options{
		ID: Prefix("s:"), PartitionKey: []KeyProperty{{Path: "/tenant", Of: Fixed("acme")}, {Path: "/id"}},
	})
	f.mustInsert(t, "k", map[string]any{
		"id": "no", "tenant": "no", "ttl": 5, "created_at": "no", "expires_at": "no", "slidingttl_version": 1, "_etag": "no", "_ts": 1,
		"user": "ann", "n": 1.5, "list": []any{"a"}, "ключ": "значение", `q"uote`: true,
	}, lasting(time.Hour), base)
	item := gjson.Parse(f.raw(t, "k"))
	for path, want := range map[string]string{
		"id": "s:k", "tenant": "acme", "ttl": "3602", "created_at": "2026-03-01T12:00:00.000Z", "expires_at": "2026-03-01T13:00:00.000Z",
		"user": "ann", "n": "1.5", "list": `["a"]`, "ключ": "значение", `q"uote`: "true",
	} {
		if got := item.Get(path).String(); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if v := item.Get("slidingttl_version").Int(); v < 2 {
		t.Errorf("the version is %d", v)
	}
}

func TestNumbers(t *testing.T) {
	type number struct {
		N any `json:"n"`
	}
	f := open[number](t, nil)
	for _, n := range []any{int64(1) << 53, -(int64(1) << 53), 0.1, 1e300, 1e20, -1.5e-100, 123456789012345} {
		if _, err := f.Insert(t.Context(), fmt.Sprint("k", n), number{n}, lasting(time.Hour), base); err != nil {
			t.Errorf("%v: %v", n, err)
		}
	}
	for _, n := range []any{int64(1)<<53 + 1, int64(1) << 60, []any{map[string]any{"deep": int64(-1)<<53 - 1}}} {
		_, err := f.Insert(t.Context(), "k", number{n}, lasting(time.Hour), base)
		wantInvalid(t, fmt.Sprint(n), err, "value", "float64")
	}
}

// A number is read back the same, as a decimal, or refused.
func TestDecimals(t *testing.T) {
	type number struct {
		N json.Number `json:"n"`
	}
	f := open[number](t, nil)
	for n, kept := range map[json.Number]bool{
		"0": true, "-0.0": true, "0e400": true, "0.10": true, "1.0": true, "1e0": true, "12e-1": true, "0.012E+2": true,
		"9007199254740992.0": true, "1e22": true, "1E300": true, "1.7976931348623157e308": true, "5e-324": true,
		"10000000000000000": true, "123456789.12345679": true, "100000000000000000000000": true, "-1.50e-100": true,

		"9007199254740993": false, "9007199254740993.0": false, "900719925474099.3e1": false, "12345678901234567.5": false,
		"123456789.12345678912345": false, "1.2345678901234567891e30": false, "0.1000000000000000055511151231257827": false,
		"1e-400": false, "1e400": false, "-1e309": false, "1e99999999999999999999": false, "1e-99999999999999999999": false, "4e-324": false,
	} {
		_, err := f.Insert(t.Context(), string("k"+n), number{n}, lasting(time.Hour), base)
		if !kept {
			wantInvalid(t, string(n), err, "value", "float64")
		} else if err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	f := open[session](t, nil)
	v := session{Note: strings.Repeat("n", 2<<20)}
	_, err := f.Insert(t.Context(), secret, v, lasting(time.Hour), base)
	wantInvalid(t, "Insert of more than 2 MB", err, "item", "2 MB")
	m := f.mustInsert(t, secret, session{}, lasting(time.Hour), base)
	_, err = f.Replace(t.Context(), secret, v, m, m.Life, base)
	wantInvalid(t, "Replace with more than 2 MB", err, "item", "2 MB")
	if got := f.mustGet(t, secret); got.Meta != m {
		t.Errorf("the record became %+v", got.Meta)
	}
}

// The error for a value of another shape names the property and does not quote the value.
func TestMisshapen(t *testing.T) {
	f := open[session](t, nil)
	f.put(t, "k", `{"id":"k","user":["`+secret+`"]}`)
	_, err := f.Get(t.Context(), "k")
	wantInvalid(t, "Get", err, "item", "must decode into a cosmos.session", "does not fit Go type string")
	_, err = f.GetMulti(t.Context(), []string{"absent", "k"})
	var bad driver.KeyErrors
	if !errors.As(err, &bad) || len(bad) != 1 || bad[0].Index != 1 || strings.Contains(err.Error(), secret) {
		t.Errorf("GetMulti: error %v, want one of the second key", err)
	}
	raw, err := f.Raw(t.Context(), "k")
	if err != nil || raw.Format != "json" || !strings.Contains(string(raw.Value), secret) || raw.Problem != nil {
		t.Errorf("Raw returns %+v, %v", raw, err)
	}
}

// A property of the value whose name is the text of a nested partition key's path is the value's own.
func TestNameWithSlash(t *testing.T) {
	f := open[map[string]any](t, &Options{PartitionKey: []KeyProperty{{Path: "/owner/id"}}})
	v := map[string]any{"owner": map[string]any{"id": "k"}, "owner/id": "mine"}
	f.mustInsert(t, "k", v, lasting(time.Hour), base)
	if got := f.mustGet(t, "k").Value["owner/id"]; got != "mine" {
		t.Errorf("owner/id is read back as %v", got)
	}
}
