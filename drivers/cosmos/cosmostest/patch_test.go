package cosmostest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestPatch(t *testing.T) {
	const item = `{"id":"k","n":1,"o":{"a":1},"l":[1,2]}`
	for _, tt := range []struct {
		name   string
		patch  func(p *azcosmos.PatchOperations)
		status int // zero: success
		want   string
	}{
		{"add", func(p *azcosmos.PatchOperations) { p.AppendAdd("/m", "x") }, 0, `{"id":"k","n":1,"o":{"a":1},"l":[1,2],"m":"x"}`},
		{"add to an array", func(p *azcosmos.PatchOperations) { p.AppendAdd("/l/1", 9) }, 0, `{"id":"k","n":1,"o":{"a":1},"l":[1,9,2]}`},
		{"add at its end", func(p *azcosmos.PatchOperations) { p.AppendAdd("/l/-", 9) }, 0, `{"id":"k","n":1,"o":{"a":1},"l":[1,2,9]}`},
		{"set", func(p *azcosmos.PatchOperations) { p.AppendSet("/o/b", true) }, 0, `{"id":"k","n":1,"o":{"a":1,"b":true},"l":[1,2]}`},
		{"set null", func(p *azcosmos.PatchOperations) { p.AppendSet("/n", json.RawMessage("null")) }, 0, `{"id":"k","n":null,"o":{"a":1},"l":[1,2]}`},
		{"set without a value", func(p *azcosmos.PatchOperations) { p.AppendSet("/n", nil) }, 400, ""},
		{"set in an array", func(p *azcosmos.PatchOperations) { p.AppendSet("/l/0", 9) }, 0, `{"id":"k","n":1,"o":{"a":1},"l":[9,2]}`},
		{"replace", func(p *azcosmos.PatchOperations) { p.AppendReplace("/n", 2) }, 0, `{"id":"k","n":2,"o":{"a":1},"l":[1,2]}`},
		{"replace a missing value", func(p *azcosmos.PatchOperations) { p.AppendReplace("/m", 2) }, 400, ""},
		{"remove", func(p *azcosmos.PatchOperations) { p.AppendRemove("/o/a"); p.AppendRemove("/l/0") }, 0, `{"id":"k","n":1,"o":{},"l":[2]}`},
		{"remove a missing value", func(p *azcosmos.PatchOperations) { p.AppendRemove("/m") }, 400, ""},
		{"increment", func(p *azcosmos.PatchOperations) { p.AppendIncrement("/n", 4); p.AppendIncrement("/m", 2) }, 0, `{"id":"k","n":5,"o":{"a":1},"l":[1,2],"m":2}`},
		{"increment an object", func(p *azcosmos.PatchOperations) { p.AppendIncrement("/o", 4) }, 400, ""},
		{"below a missing value", func(p *azcosmos.PatchOperations) { p.AppendSet("/m/n", 4) }, 400, ""},
		{"the id", func(p *azcosmos.PatchOperations) { p.AppendSet("/id", "l") }, 400, ""},
		{"nothing", func(p *azcosmos.PatchOperations) {}, 400, ""},
		{"eleven", func(p *azcosmos.PatchOperations) {
			for range 11 {
				p.AppendSet("/n", 1)
			}
		}, 400, ""},
		{"all or nothing", func(p *azcosmos.PatchOperations) { p.AppendSet("/n", 7); p.AppendRemove("/m") }, 400, ""},
		{"condition that holds", func(p *azcosmos.PatchOperations) {
			p.SetCondition("from c where c.n = 1 and c.o['a'] < 2 and not is_defined(c.m)")
			p.AppendSet("/n", 2)
		}, 0, `{"id":"k","n":2,"o":{"a":1},"l":[1,2]}`},
		{"condition that does not", func(p *azcosmos.PatchOperations) { p.SetCondition("from c where c.n = '1'"); p.AppendSet("/n", 2) }, 412, ""},
		{"condition on a missing value", func(p *azcosmos.PatchOperations) { p.SetCondition("from c where c.m != 1"); p.AppendSet("/n", 2) }, 412, ""},
		{"condition that is none", func(p *azcosmos.PatchOperations) { p.SetCondition("where"); p.AppendSet("/n", 2) }, 400, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := open(t, nil, azcosmos.ContainerProperties{})
			f.create(t, item, "k")
			var p azcosmos.PatchOperations
			tt.patch(&p)
			_, err := f.c.PatchItem(t.Context(), pk("k"), "k", p, nil)
			want := tt.want
			if tt.status != 0 {
				wantStatus(t, "PatchItem", err, tt.status, "")
				want = item
			} else if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal([]byte(want), &doc); err != nil {
				t.Fatal(err)
			}
			if got := f.doc(t, "k"); !reflect.DeepEqual(got, doc) {
				t.Errorf("the item is %v, want %v", got, doc)
			}
		})
	}
}
