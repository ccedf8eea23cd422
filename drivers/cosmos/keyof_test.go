package cosmos

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// part is a function of a composite key. It panics for a key of one part.
func part(i int) func(string) string {
	return func(key string) string { return strings.Split(key, "/")[i] }
}

// composite is the layout of the README's hierarchical partition key, without its inverse.
func composite() *Options {
	return &Options{
		PartitionKey: []KeyProperty{{Path: "/tenant", Of: part(0)}, {Path: "/session", Of: part(1)}},
		ID:           part(1),
	}
}

func ofComposite(id string, partition []string) (string, bool) {
	return partition[0] + "/" + id, true
}

// unescape is the inverse of url.PathEscape as an Options.ID.
func unescape(id string, _ []string) (string, bool) {
	key, err := url.PathUnescape(id)
	return key, err == nil
}

// A layout whose keys cannot be found again is refused where that is needed, and no function of the
// caller's is called to find that out.
func TestKeyOfIsRequired(t *testing.T) {
	panics := func(string) string { panic("called") }
	at := func(of func(string) string) []KeyProperty { return []KeyProperty{{Path: "/tenant", Of: of}} }
	for name, c := range map[string]struct {
		opts    Options
		refused bool
	}{
		"the key itself":                {Options{}, false},
		"a prefix":                      {Options{ID: Prefix("s:"), PartitionKey: at(Fixed("acme"))}, false},
		"the key beside a function":     {Options{PartitionKey: at(panics)}, false},
		"a function beside the key":     {Options{ID: panics, PartitionKey: at(nil)}, false},
		"a function beside a prefix":    {Options{ID: panics, PartitionKey: at(Prefix("t:"))}, false},
		"a composite key":               {*composite(), true},
		"an encoded id":                 {Options{ID: url.PathEscape}, true},
		"an encoded id, with inverse":   {Options{ID: url.PathEscape, KeyOf: unescape}, false},
		"nothing of the key":            {Options{ID: Fixed("a"), PartitionKey: at(Fixed("b"))}, true},
		"a prefix in a function":        {Options{ID: func(key string) string { return Prefix("s:")(key[:1]) }}, true},
		"a function beside the id only": {Options{ID: panics, PartitionKey: []KeyProperty{{Path: "/id"}}}, true},
	} {
		d, err := New[session](&azcosmos.ContainerClient{}, &c.opts)
		if err != nil {
			t.Fatal(name, err)
		}
		_, err = d.Segments(t.Context(), 1)
		if !c.refused {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantInvalid(t, name+": Segments", err, "Options.KeyOf", "Options.ID")
		_, err = d.Scan(t.Context(), driver.EncodeCursor(mark{}), 1)
		wantInvalid(t, name+": Scan", err, "Options.KeyOf", "Options.ID")
	}
}

// scanned returns the keys that a scan in three segments finds, and how many items are none.
func scanned(t *testing.T, f *fixture[session]) (keys map[string]error, passed int64) {
	t.Helper()
	segments, err := f.Segments(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	keys = make(map[string]error)
	for _, at := range segments {
		for at != "" {
			page, err := f.Scan(t.Context(), at, 2)
			if err != nil {
				t.Fatal(err)
			}
			passed += int64(page.Passed)
			for _, r := range page.Records {
				if _, again := keys[r.Key]; again {
					t.Errorf("key %q is found twice", r.Key)
				}
				keys[r.Key] = r.Problem
			}
			at = page.Next
		}
	}
	return keys, passed
}

// Items whose partition key has a level that is no String are no records, whatever KeyOf makes of "".
func TestKeyOfAnotherType(t *testing.T) {
	o := composite()
	o.KeyOf = ofComposite
	f := open[session](t, o)
	f.mustInsert(t, "/x", session{User: "ours"}, lasting(time.Hour), base)
	for body, pk := range map[string]azcosmos.PartitionKey{
		`{"id":"x","tenant":null,"session":"x"}`: azcosmos.NewPartitionKey().AppendNull().AppendString("x"),
		`{"id":"x","tenant":5,"session":"x"}`:    azcosmos.NewPartitionKey().AppendNumber(5).AppendString("x"),
	} {
		if _, err := f.container.CreateItem(t.Context(), pk, []byte(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	cursors, err := f.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	page, err := f.Scan(t.Context(), cursors[0], 10)
	if err != nil || len(page.Records) != 1 || page.Passed != 2 {
		t.Errorf("%v: %d records and %d passed over, want 1 and 2", err, len(page.Records), page.Passed)
	}
}

// Computed keys are found again by Options.KeyOf, or by the part that is the key itself. What other
// programs store beside them is no record, also if a function panics on it.
func TestKeyOf(t *testing.T) {
	with := func(o *Options, of func(string, []string) (string, bool)) *Options {
		o.KeyOf = of
		return o
	}
	for name, c := range map[string]struct {
		opts  *Options
		alien []string // items of other programs
	}{
		"composite": {with(composite(), ofComposite), []string{
			`{"id":"4711","tenant":"acme","session":"another"}`, `{"id":"x","tenant":"a/b","session":"x"}`,
		}},
		"encoded":           {with(&Options{ID: url.PathEscape}, unescape), []string{`{"id":"50%"}`, `{"id":"%61"}`}},
		"key of panics":     {with(composite(), func(id string, p []string) (string, bool) { return part(1)(p[0]) + "/" + id, true }), nil},
		"in a partition":    {&Options{ID: part(1), PartitionKey: []KeyProperty{{Path: "/session", Of: Prefix("s:")}}}, []string{`{"id":"1","session":"s:acme"}`, `{"id":"1","session":"acme/1"}`}},
		"beside a function": {&Options{ID: Prefix("s:"), PartitionKey: []KeyProperty{{Path: "/tenant", Of: func(key string) string { return key[:3] }}}}, []string{`{"id":"s:a","tenant":"a"}`, `{"id":"s:acme","tenant":"a"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := open[session](t, c.opts)
			want := []string{"acme/4711", "beta/4712", "acme/12"}
			if name == "beside a function" {
				want = []string{"acme", "beta"}
			}
			for _, key := range want {
				f.mustInsert(t, key, session{User: key}, lasting(time.Hour), base)
			}
			for _, item := range c.alien {
				k, _ := f.identityOf(gjson.Parse(item))
				pk := f.partitionKey(k)
				if _, err := f.container.UpsertItem(t.Context(), pk, []byte(item), nil); err != nil {
					t.Fatal(err)
				}
			}
			keys, passed := scanned(t, f)
			if name == "key of panics" {
				if len(keys) != 0 || passed != int64(len(want)) {
					t.Errorf("found %v, and passed %d over", keys, passed)
				}
				return
			}
			if len(keys) != len(want) || passed != int64(len(c.alien)) {
				t.Errorf("found %v, and passed %d over; want %d and %d", keys, passed, len(want), len(c.alien))
			}
			for _, key := range want {
				if problem, ok := keys[key]; !ok || problem != nil {
					t.Errorf("%s: found %t, problem %v", key, ok, problem)
				}
			}
		})
	}
}

// A refused key that maps back to its item is told with its problem.
func TestScanOfARefusedKey(t *testing.T) {
	f := open[session](t, &Options{ID: Prefix("s:"), PartitionKey: []KeyProperty{{Path: "/tenant", Of: Fixed("acme")}}})
	pk := azcosmos.NewPartitionKeyString("acme")
	if _, err := f.container.CreateItem(t.Context(), pk, []byte(`{"id":"s:","tenant":"acme"}`), nil); err != nil {
		t.Fatal(err)
	}
	keys, passed := scanned(t, f)
	if problem, ok := keys[""]; !ok || problem == nil || passed != 0 {
		t.Errorf("found %v, and passed %d over", keys, passed)
	}
}
