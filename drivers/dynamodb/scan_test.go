package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var (
	_ driver.Scanner   = (*Driver[int])(nil)
	_ driver.RawReader = (*Driver[int])(nil)
	_ driver.Mender    = (*Driver[int])(nil)
)

func scanAll[T any](t testing.TB, d *Driver[T], limit int) map[string]driver.Scanned {
	t.Helper()
	cursors, err := d.Segments(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	met := make(map[string]driver.Scanned)
	for _, at := range cursors {
		for at != "" {
			p, err := d.Scan(t.Context(), at, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Records {
				met[r.Key] = r
			}
			at = p.Next
		}
	}
	return met
}

// Only items with the driver's own keys are records, whatever else is in the table.
func TestScanOfASharedTable(t *testing.T) {
	opts := &Options{
		PartitionKey: KeyAttribute{Name: "PK", Of: Prefix("SESSION#")},
		SortKey:      KeyAttribute{Name: "SK", Of: Fixed("METADATA")},
	}
	tbl := open[session](t, opts)
	life := driver.Life{CreatedAt: base, ExpiresAt: base.Add(time.Hour)}
	tbl.mustInsert(t, "a", session{User: "ann"}, life, base)
	tbl.mustInsert(t, "SESSION#a", session{User: "ben"}, life, base)
	for _, k := range []primaryKey{{"USER#a", "METADATA"}, {"SESSION#a", "ITEM#1"}} {
		if _, err := tbl.client.PutItem(t.Context(), putOf(tbl, k)); err != nil {
			t.Fatal(err)
		}
	}
	if met := scanAll(t, tbl.Driver, 1); len(met) != 2 || met["a"].Life != life || met["SESSION#a"].Life != life {
		t.Errorf("the scan met %v", met)
	}
}

func TestScanCosts(t *testing.T) {
	tbl := open[session](t, nil)
	for i := range 10 {
		tbl.mustInsert(t, fmt.Sprint(i), session{Note: strings.Repeat("x", 8000)}, driver.Life{CreatedAt: base, ExpiresAt: base.Add(time.Hour)}, base)
	}
	cursors, err := tbl.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tbl.Scan(t.Context(), cursors[0], 100)
	if err != nil {
		t.Fatal(err)
	}
	// 80 KB, eventually consistent: half a unit for each 4 KB.
	if len(p.Records) != 10 || p.Cost < 9 || p.Cost > 12 {
		t.Errorf("%d records of 8 KB cost %v units; want about 10", len(p.Records), p.Cost)
	}
}

func TestScanRefuses(t *testing.T) {
	hashed, err := New[session](&dynamodb.Client{}, "t", &Options{PartitionKey: KeyAttribute{Name: "pk", Of: func(key string) string { return fmt.Sprint(len(key)) }}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = hashed.Segments(t.Context(), 1)
	wantInvalid(t, "keys that cannot be found again", err, "Options.KeyOf")
}

func TestMend(t *testing.T) {
	tbl := open[session](t, nil)
	at := base / 1000
	for key, c := range map[string]struct {
		expiry types.AttributeValue
		fault  string
		want   string // afterwards
		odd    bool
	}{
		"seconds":    {number(itoa(at)), "", itoa(at), false},
		"millis":     {number(itoa(at*1000 + 1)), "is in milliseconds", itoa(at + 1), false},
		"digits":     {text(itoa(at)), "is a String", itoa(at), false},
		"rfc":        {text(base.Time().Format(time.RFC3339)), "is a String", itoa(at), false},
		"word":       {text("tomorrow"), "", "tomorrow", true},
		"no expiry":  {nil, "", "", false},
		"a boolean":  {&types.AttributeValueMemberBOOL{Value: true}, "", "", true},
		"long since": {number("-5"), "", "-5", false},
	} {
		item := attrs{"user": text("ann"), "created_at": text(base.Time().Format(time.RFC3339))}
		if c.expiry != nil {
			item["ttl"] = c.expiry
		}
		tbl.put(t, key, item)
		r := scanAll(t, tbl.Driver, 100)[key]
		if c.odd != errors.Is(r.Problem, driver.ErrInvalid) || !strings.HasSuffix(r.Fault, c.fault) || (r.Fault == "") != (c.fault == "") {
			t.Errorf("%s: the scan tells of the fault %q and the problem %v", key, r.Fault, r.Problem)
		}
		for _, apply := range []bool{false, true} {
			fault, err := tbl.Mend(t.Context(), key, apply)
			if c.odd {
				wantInvalid(t, key, err, `attribute "ttl"`)
			} else if err != nil || fault != r.Fault {
				t.Errorf("%s: Mend tells of %q, %v; want %q", key, fault, err, r.Fault)
			}
			after := plain(tbl.raw(t, key)["ttl"])
			if before := plain(c.expiry); !apply && after != before {
				t.Errorf("%s: a dry run wrote %q", key, after)
			} else if apply && after != c.want {
				t.Errorf("%s: the expiry is %q; want %q", key, after, c.want)
			}
		}
		if fault, err := tbl.Mend(t.Context(), key, true); !c.odd && (fault != "" || err != nil) {
			t.Errorf("%s: mended twice: %q, %v", key, fault, err)
		}
	}
	if _, err := tbl.Mend(t.Context(), "never", true); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Mend of nothing: %v", err)
	}
}

// A write between Mend's read and its write stays.
func TestMendLosesToAnother(t *testing.T) {
	tbl := open[session](t, nil)
	tbl.put(t, "a", attrs{"ttl": number(itoa(base))})
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		if op == "UpdateItem" {
			tbl.put(t, "a", attrs{"ttl": number(itoa(base/1000 + 7))})
		}
		return send()
	})
	if _, err := tbl.Mend(t.Context(), "a", true); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("the error is %v", err)
	}
	if got := plain(tbl.raw(t, "a")["ttl"]); got != itoa(base/1000+7) {
		t.Errorf("the expiry is %s", got)
	}
}

func TestRawIsTheWholeItem(t *testing.T) {
	tbl := open[session](t, nil)
	tbl.put(t, "a", attrs{
		"user": text("ann"), "ttl": text("tomorrow"), "n": number("1"), "b": &types.AttributeValueMemberB{Value: []byte{1}},
		"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberBOOL{Value: true}, &types.AttributeValueMemberNULL{Value: true}}},
		"m": &types.AttributeValueMemberM{Value: attrs{"x": text("y")}}, "ss": &types.AttributeValueMemberSS{Value: []string{"s"}},
	})
	r, err := tbl.Raw(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"b":{"B":"AQ=="},"l":{"L":[{"BOOL":true},{"NULL":true}]},"m":{"M":{"x":{"S":"y"}}},"n":{"N":"1"},"pk":{"S":"a"},"ss":{"SS":["s"]},"ttl":{"S":"tomorrow"},"user":{"S":"ann"}}`
	if string(r.Value) != want || !json.Valid(r.Value) || r.Fields["ttl"] != "tomorrow" || !errors.Is(r.Problem, driver.ErrInvalid) {
		t.Errorf("Raw returns %s, %v, %v", r.Value, r.Fields, r.Problem)
	}
}

func putOf[T any](tbl *table[T], k primaryKey) *dynamodb.PutItemInput {
	return &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: tbl.attributes(k)}
}
