package dynamodb

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// acceptedLayouts are layouts that differ in what a life adds to an item.
var acceptedLayouts = map[string]Options{
	"default":                     {},
	"retained":                    {Retain: time.Hour},
	"life table":                  {LifeTable: "of its own", Hold: 5 * time.Hour},
	"life table, numeric key":     {LifeTable: "of its own", Hold: 5 * time.Hour, Retain: time.Hour, CreatedAtFormat: UnixMilli, PartitionKey: KeyAttribute{Name: "id", Type: types.ScalarAttributeTypeN}},
	"life table, life in value":   {LifeTable: "of its own", Hold: 5 * time.Hour, LifeInValue: true},
	"tags and decoders of others": {Encoder: func(e *attributevalue.EncoderOptions) { e.TagKey = "json" }, Decoder: func(d *attributevalue.DecoderOptions) { d.TagKey, d.UseEncodingUnmarshalers = "json", true }},
}

// acceptedPolicy keeps the last two digits of an expiry those of the access.
var acceptedPolicy = slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 4 * time.Hour}

// atDigits is a second after base whose number has a 7 for its last digit. A Number's size does not count
// zeros at its end.
func atDigits() driver.Instant { return base.RoundUp(100*time.Second) + 37_000 }

// livesWith holds what Check accepts to all calls of a life. v is as large as larger, if that is not nil, less
// a byte.
func livesWith[T any](t *testing.T, tbl *table[T], v T, larger *T) {
	ctx, clock := t.Context(), handsAt(atDigits())
	if err := tbl.Check(ctx, acceptedPolicy.MaxLifetime); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, tbl.Driver, acceptedPolicy, slidingttl.Options[T]{Now: clock.Now, Strict: true})
	fields := func(v T) map[string]any {
		item, err := tbl.encode(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slicesOf(tbl.opts) {
			delete(item, name)
		}
		return asJSON(sameNumbers(&types.AttributeValueMemberM{Value: item}).(*types.AttributeValueMemberM).Value)
	}
	want := fields(v)
	reads := func(what string) {
		t.Helper()
		if got, err := s.Get(ctx, "12"); err != nil {
			t.Errorf("%s: Get: %v", what, err)
		} else if got := fields(got); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: Get returns %.500v, want %.500v", what, got, want)
		}
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	does := func(what string, err error) {
		t.Helper()
		must(what, err)
		reads(what)
		clock.forward(30 * time.Second)
		reads("a touch after " + what)
	}
	for _, life := range []string{"the first life", "the second life"} {
		if larger != nil {
			if err := s.Insert(ctx, "12", *larger); !errors.Is(err, slidingttl.ErrInvalid) || tbl.raw(t, "12") != nil {
				t.Errorf("Insert of a byte more: %v", err)
			}
		}
		does("Insert, "+life, s.Insert(ctx, "12", v))
		if larger != nil {
			if err := s.Upsert(ctx, "12", *larger); !errors.Is(err, slidingttl.ErrInvalid) {
				t.Errorf("Upsert of a byte more: %v", err)
			}
			clock.forward(30 * time.Second)
			reads("a refused Upsert")
		}
		does("Upsert, "+life, s.Upsert(ctx, "12", v))
		_, err := s.Update(ctx, "12", func(v T) (T, error) { return v, nil })
		does("Update, "+life, err)
		if got, err := s.GetMulti(ctx, []string{"12", "13"}); err != nil || len(got) != 1 {
			t.Errorf("GetMulti returns %d values, %v", len(got), err)
		}
		must("Retire", s.Retire(ctx, "12"))
		if _, err := s.Get(ctx, "12"); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("after Retire: %v", err)
		}
		if larger != nil { // a dead record stands in the table
			must("Delete", s.Delete(ctx, "12"))
		}
	}
}

// An item that Insert takes has room for its whole life, to the byte, and one that it refuses changes nothing.
func TestLargestItem(t *testing.T) {
	for layout, o := range acceptedLayouts {
		t.Run(layout, func(t *testing.T) {
			tbl := open[session](t, &o)
			n := driver.Version(0)
			tbl.draw = func(most driver.Version) driver.Version { n++; return (most/10-n)*10 + 7 } // of as many digits each time
			sized := func(size int) session { return session{User: "x", Note: strings.Repeat("x", size)} }
			life := driver.Life{CreatedAt: atDigits(), ExpiresAt: atDigits().Add(time.Hour)}
			fits, not := largest-500, largest
			for probe := 21; not-fits > 1; probe++ {
				size := (fits + not) / 2
				_, err := tbl.Insert(t.Context(), fmt.Sprint(probe), sized(size), life, atDigits())
				if err == nil {
					fits = size
				} else if not = size; !errors.Is(err, driver.ErrInvalid) {
					t.Fatal(err)
				}
			}
			larger := sized(not)
			livesWith(t, tbl, sized(fits), &larger)
		})
	}
}

// ownFields has fields for attributes of the driver.
type ownFields struct {
	ID      string     `dynamodbav:"id" json:"id"`
	PK      *string    `dynamodbav:"pk" json:"pk"`
	TTL     int64      `dynamodbav:"ttl" json:"ttl"`
	Created any        `dynamodbav:"created_at" json:"created_at"`
	Next    *ownFields `dynamodbav:"next,omitempty" json:"next,omitempty"`
	At      int        `dynamodbav:"at" json:"at"`
	Gen     string     `dynamodbav:"generation" json:"generation"`
	Doubt   []byte     `dynamodbav:"slidingttl_doubt" json:"slidingttl_doubt"`
	Former  []string   `dynamodbav:"slidingttl_former,stringset,omitempty" json:"slidingttl_former"`
}

// What New and Check accept works, in each layout.
func TestAcceptedTypes(t *testing.T) {
	own := ownFields{ID: "no", TTL: 3, At: 4, Gen: "g", Doubt: []byte{1}, Former: []string{"a", ""}, Next: &ownFields{Created: []any{1.5, nil}}}
	record := attrs{"l": &types.AttributeValueMemberL{}, "m": &types.AttributeValueMemberM{Value: attrs{}}, "s": text(""), "n": number("1E-130"), retainedAt: number("1"), doubtName: text("d")}
	loose := map[string]any{"a": nil, "b": []any{}, "c": map[string]any{}, "d": 1.5, "e": "", "g": true, formerName: "f"}
	for layout, o := range acceptedLayouts {
		t.Run(layout, func(t *testing.T) {
			livesWith(t, open[ownFields](t, &o), own, nil)
			livesWith(t, open[attrs](t, &o), maps.Clone(record), nil)
			livesWith(t, open[map[string]any](t, &o), loose, nil)
		})
	}
}
