package kit

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// chained has its pair on the pointer, in the form of its fields, and link holds such a part beside the next.
type (
	chained struct{ Next any }
	link    struct {
		F    fast
		Next any
	}
)

func (c *chained) MarshalJSON() ([]byte, error) {
	type plain chained
	return json.Marshal((*plain)(c))
}
func (c *chained) UnmarshalJSON(b []byte) error {
	type plain chained
	return json.Unmarshal(b, (*plain)(c))
}

// A search encodes each part that only its pointer encodes once, and not again all that is around it. What nests more of them in
// interfaces than it compares is refused.
func TestSearchOfNestedInterfaces(t *testing.T) {
	size := 0
	e := &Encoding{Pairs: ofJSON.Pairs, Keys: ofJSON.Keys, Says: ofJSON.Says, Name: ofJSON.Name, Decode: ofJSON.Decode}
	e.Encode = func(v any) (any, error) {
		b, err := json.Marshal(v)
		size += len(b)
		return b, err
	}
	var links, some, many any
	for i := range 2000 {
		links = link{Next: links}
		if many = (chained{many}); i < mostHeld {
			some = many
		}
	}
	for _, v := range []any{links, some} {
		if _, _, err := e.Given([]any{v}, true); err != nil {
			t.Error(err)
		}
	}
	if size > 500_000 {
		t.Errorf("%d bytes are encoded", size)
	}
	if _, _, err := e.Given([]any{many}, true); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%d in each other: %v", 2000, err)
	}
}

// The search of what encoding/json makes for an interface allocates nothing.
func TestSearchAllocatesNothing(t *testing.T) {
	var v any = map[string]any{"a": "b", "n": 1.5, "list": []any{"a", map[string]any{"ok": true, "nil": nil}}}
	codec := JSON{loose: true}
	own := testing.AllocsPerRun(100, func() { _, _ = codec.Encode(v) })
	bare := testing.AllocsPerRun(100, func() { _, _ = json.Marshal(v) })
	if own > bare+5 { // the race detector adds some
		t.Errorf("%.0f allocations, and %.0f of encoding/json", own, bare)
	}
}
