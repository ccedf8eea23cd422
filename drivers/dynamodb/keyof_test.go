package dynamodb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// composite is the layout of the README's composite key, without its inverse. Its functions panic
// for a key of one part.
func composite() *Options {
	part := func(i int) func(string) string {
		return func(key string) string { return []string{"USER#", "SESSION#"}[i] + strings.Split(key, "/")[i] }
	}
	return &Options{
		PartitionKey: KeyAttribute{Name: "PK", Of: part(0)},
		SortKey:      KeyAttribute{Name: "SK", Of: part(1)},
		Deletes:      true,
	}
}

func ofComposite(partition, sort string) (string, bool) {
	user, ok := strings.CutPrefix(partition, "USER#")
	session, also := strings.CutPrefix(sort, "SESSION#")
	return user + "/" + session, ok && also
}

// A layout whose keys cannot be found again is refused where that is needed, and no function of the
// caller's is called to find that out.
func TestKeyOfIsRequired(t *testing.T) {
	length := func(key string) string { return fmt.Sprint(len(key)) }
	for name, c := range map[string]struct {
		opts    Options
		refused bool
	}{
		"the key itself":           {Options{}, false},
		"a prefix":                 {Options{PartitionKey: KeyAttribute{Of: Prefix("SESSION#")}, SortKey: KeyAttribute{Name: "SK", Of: Fixed("A")}}, false},
		"sorted by a prefix":       {Options{PartitionKey: KeyAttribute{Of: Fixed("A")}, SortKey: KeyAttribute{Name: "SK", Of: Prefix("B#")}}, false},
		"the key beside a hash":    {Options{SortKey: KeyAttribute{Name: "SK", Of: length}}, false},
		"a composite key":          {*composite(), true},
		"a hash":                   {Options{PartitionKey: KeyAttribute{Of: length}}, true},
		"nothing of the key":       {Options{PartitionKey: KeyAttribute{Of: Fixed("A")}, SortKey: KeyAttribute{Name: "SK", Of: Fixed("B")}}, true},
		"a prefix in a function":   {Options{PartitionKey: KeyAttribute{Of: func(key string) string { return Prefix("A")(key[:1]) }}}, true},
		"a hash with its inverse":  {Options{PartitionKey: KeyAttribute{Of: length}, KeyOf: ofComposite}, false},
		"a key that panics with 0": {Options{PartitionKey: KeyAttribute{Of: func(key string) string { panic("called") }}}, true},
	} {
		d, err := New[session](&dynamodb.Client{}, "t", &c.opts)
		if err != nil {
			t.Fatal(name, err)
		}
		_, segments := d.Segments(t.Context(), 1)
		_, stream := d.Stream(&dynamodbstreams.Client{}, new(graves).options())
		for what, err := range map[string]error{"Segments": segments, "Stream": stream} {
			if c.refused {
				wantInvalid(t, name+": "+what, err, "Options.KeyOf", "PartitionKey.Of")
			} else if err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

// A composite key is found again by Options.KeyOf, and what other programs store beside it is none,
// also if a function panics on it.
func TestKeyOf(t *testing.T) {
	opts := composite()
	opts.KeyOf = ofComposite
	tbl := open[session](t, opts)
	tbl.mustInsert(t, "42/abc", session{User: "ann"}, lasting(time.Hour), base)
	for _, k := range []primaryKey{{"USER#42", "PROFILE"}, {"ORDER#1", "SESSION#abc"}, {"USER#4/2", "SESSION#abc"}} {
		if _, err := tbl.client.PutItem(t.Context(), putOf(tbl, k)); err != nil {
			t.Fatal(err)
		}
	}
	if met := scanAll(t, tbl.Driver, 10); len(met) != 1 || met["42/abc"].Life != lasting(time.Hour) {
		t.Errorf("the scan met %v", met)
	}
	dead, ok := tbl.Dead(Change{Old: tbl.raw(t, "42/abc"), At: base.Time(), ByTTL: true})
	if !ok || dead.Key != "42/abc" || dead.At != base.Add(time.Hour) {
		t.Errorf("Dead: %+v, %t", dead, ok)
	}
	tbl.Driver.opts.KeyOf = func(string, string) (string, bool) { panic("on every key") }
	if met := scanAll(t, tbl.Driver, 10); len(met) != 0 {
		t.Errorf("with a function that panics, the scan met %v", met)
	}
}
