package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// word has its encoding on the pointer.
type word string

func (w *word) MarshalText() ([]byte, error)    { return []byte("my " + *w), nil }
func (w *word) UnmarshalText(text []byte) error { *w = word(text[3:]); return nil }

// view can be encoded only, without its Secret.
type view struct{ Name, Secret string }

func (v *view) MarshalJSON() ([]byte, error) { return json.Marshal(v.Name) }

// A value is encoded by its own methods, those of its pointer too.
func TestJSONByPointer(t *testing.T) {
	type purse struct{ Total big.Int }
	for _, c := range []struct {
		v    any
		want string
	}{
		{*big.NewInt(17), "17"},
		{purse{*big.NewInt(17)}, `{"Total":17}`},
		{[1]big.Int{*big.NewInt(17)}, "[17]"},
		{[]big.Int{*big.NewInt(17)}, "[17]"},
		{word("word"), `"my word"`},
		{struct{ A any }{"a"}, `{"A":"a"}`},
		{&purse{*big.NewInt(17)}, `{"Total":17}`},
		{(*purse)(nil), "null"},
		{(*big.Int)(nil), "null"},
		{nil, "null"},
		{view{"n", "s"}, `{"Name":"n","Secret":"s"}`},
		{struct{ view }{view{"n", "s"}}, `{"Name":"n","Secret":"s"}`},
		{"text", `"text"`},
		{map[string]int{"a": 1}, `{"a":1}`},
	} {
		if got, err := (JSON{}).Encode(c.v); err != nil || string(got) != c.want {
			t.Errorf("%T: %s, %v; want %s", c.v, got, err, c.want)
		}
	}
}

// bounds is a flag.TextVar, and its UnmarshalJSON, which fills in a default, reads it field by field.
type bounds struct{ Low, High int }

func (l *bounds) MarshalText() ([]byte, error)    { return fmt.Appendf(nil, "%d-%d", l.Low, l.High), nil }
func (l *bounds) UnmarshalText(text []byte) error { return errors.ErrUnsupported }
func (l *bounds) UnmarshalJSON(b []byte) error {
	type plain bounds
	p := plain{High: 100}
	err := json.Unmarshal(b, &p)
	*l = bounds(p)
	return err
}

// level is a map's key with its text on the pointer.
type level int

func (l *level) MarshalText() ([]byte, error)    { return []byte(strings.Repeat("x", int(*l))), nil }
func (l *level) UnmarshalText(text []byte) error { *l = level(len(text)); return nil }

// ledger writes and reads all of itself.
type ledger struct{ Sums map[string]big.Int }

func (l ledger) MarshalText() ([]byte, error) { s := l.Sums["a"]; return s.MarshalText() }
func (l *ledger) UnmarshalText(text []byte) error {
	var sum big.Int
	err := sum.UnmarshalText(text)
	l.Sums = map[string]big.Int{"a": sum}
	return err
}

// profile reads an empty object too.
type profile struct{ name string }

func (p *profile) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"name": p.name})
}
func (p *profile) UnmarshalJSON(b []byte) error {
	var m map[string]string
	err := json.Unmarshal(b, &m)
	p.name = m["name"]
	return err
}

// tree has some of itself in a map.
type tree struct {
	Left *tree
	More []tree
	By   map[string]tree
	Sum  big.Int
}

// branch has none of itself in a map.
type branch struct {
	Left *branch
	More []branch
	By   map[string]*branch
	Sum  big.Int
}

// fee encodes no zero.
type fee struct{ Cents int }

func (f *fee) MarshalText() ([]byte, error) {
	if f.Cents == 0 {
		return nil, errors.New("no fee")
	}
	return fmt.Append(nil, f.Cents), nil
}
func (f *fee) UnmarshalText(b []byte) (err error) {
	_, err = fmt.Sscan(string(b), &f.Cents)
	return err
}

// user reads its id as encoding/json reads any number.
type user struct{ ID int64 }

func (u *user) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"id":%d}`, u.ID), nil }
func (u *user) UnmarshalJSON(b []byte) error {
	var m map[string]any
	err := json.Unmarshal(b, &m)
	id, _ := m["id"].(float64)
	u.ID = int64(id)
	return err
}

// point has fewer digits in its text than in itself.
type point struct{ X, Y float64 }

func (p point) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%.2f %.2f", p.X, p.Y), nil }
func (p *point) UnmarshalText(b []byte) error {
	_, err := fmt.Sscan(string(b), &p.X, &p.Y)
	return err
}

// sums writes its map itself.
type sums struct{ Sums map[string]big.Int }

func (s *sums) MarshalJSON() ([]byte, error) { sum := s.Sums["a"]; return sum.MarshalJSON() }
func (s *sums) UnmarshalJSON(b []byte) error {
	var sum big.Int
	err := sum.UnmarshalJSON(b)
	s.Sums = map[string]big.Int{"a": sum}
	return err
}

// halved reads its id as encoding/json reads any number, and is written by its field.
type halved struct{ ID int64 }

func (h *halved) UnmarshalJSON(b []byte) error {
	var m map[string]float64
	err := json.Unmarshal(b, &m)
	h.ID = int64(m["ID"])
	return err
}

// Purse and fields are embedded.
type Purse struct{ Sum big.Int }

type fields struct{ N int }

// dash writes a field in a form of its own.
type dash struct {
	User    string
	Expires time.Time `json:"-"`
}

type dashJSON struct {
	User    string
	Expires int64
}

func (d *dash) MarshalJSON() ([]byte, error) { return json.Marshal(dashJSON{d.User, d.Expires.Unix()}) }
func (d *dash) UnmarshalJSON(b []byte) error {
	var fields dashJSON
	err := json.Unmarshal(b, &fields)
	*d = dash{fields.User, time.Unix(fields.Expires, 0).UTC()}
	return err
}

// balances writes by pointer what it holds by value.
type balances struct{ Sums map[string]big.Int }

func (b *balances) MarshalJSON() ([]byte, error) {
	sums := make(map[string]*big.Int)
	for k, v := range b.Sums {
		sums[k] = &v
	}
	return json.Marshal(map[string]any{"Sums": sums})
}

// either is read by its text and by its fields.
type either struct{ Low, High int }

func (e *either) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%d]", e.Low, e.High), nil
}
func (e *either) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, &[]any{&e.Low, &e.High})
	}
	type plain either
	return json.Unmarshal(b, (*plain)(e))
}

// wallet is written as its field is, by its pointer's methods.
type wallet struct{ Owner profile }

func (w *wallet) MarshalJSON() ([]byte, error) { type plain wallet; return json.Marshal((*plain)(w)) }
func (w *wallet) UnmarshalJSON(b []byte) error {
	type plain wallet
	return json.Unmarshal(b, (*plain)(w))
}

// noted has a field that only its pointer's methods write, where it is set.
type noted struct {
	Name string
	note string
}

func (n *noted) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name string
		Note string `json:",omitempty"`
	}{n.Name, n.note})
}
func (n *noted) UnmarshalJSON(b []byte) error {
	var fields struct{ Name, Note string }
	err := json.Unmarshal(b, &fields)
	n.Name, n.note = fields.Name, fields.Note
	return err
}

// content is written and read as what it holds.
type content struct{ V any }

func (c *content) MarshalJSON() ([]byte, error) { return json.Marshal(c.V) }
func (c *content) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.V) }

// one reads the first of a list.
type one []int

func (o *one) UnmarshalJSON(b []byte) error {
	var all []int
	err := json.Unmarshal(b, &all)
	*o = all[:1]
	return err
}

// account is written as its fields are, by its pointer's methods, and has one that is not.
type account struct {
	Balance int
	mu      *sync.Mutex
}

func (a *account) MarshalJSON() ([]byte, error) { type plain account; return json.Marshal((*plain)(a)) }
func (a *account) UnmarshalJSON(b []byte) error {
	type plain account
	return json.Unmarshal(b, (*plain)(a))
}

// history is written with the newest first, and sorted is read in an order.
type history []string

func (h history) MarshalJSON() ([]byte, error) {
	newest := slices.Clone(h)
	slices.Reverse(newest)
	return json.Marshal([]string(newest))
}

type sorted []string

func (s *sorted) UnmarshalJSON(b []byte) error {
	err := json.Unmarshal(b, (*[]string)(s))
	slices.Sort(*s)
	return err
}

// wei and held have methods of what they embed, of which a read makes nothing.
type wei struct{ *big.Int }

type held struct {
	Wei struct{ both }
}

type both interface {
	json.Marshaler
	json.Unmarshaler
}

// rank has a method of that name and of other parameters, which encoding/json does not call.
type rank struct{ N int }

func (r rank) MarshalText() ([]byte, error)  { return fmt.Append(nil, "rank ", r.N), nil }
func (r *rank) UnmarshalText(s string) error { r.N = len(s); return nil }

// label is a key of a string kind, which encoding/json writes as it is.
type label string

func (l label) MarshalText() ([]byte, error)     { return []byte(l), nil }
func (l *label) UnmarshalText(text []byte) error { *l = label(text); return nil }

// sealed, written and quoted are texts that only their methods know: what is not UTF-8 in them encoding/json replaces, keeps in JSON,
// or had replaced by another call.
type (
	sealed  struct{ of string }
	written struct{ of string }
	quoted  struct{ Of string }
	preview struct{ of string }
)

func (s sealed) MarshalText() ([]byte, error)     { return []byte(s.of), nil }
func (s *sealed) UnmarshalText(text []byte) error { s.of = string(text); return nil }
func (w *written) MarshalJSON() ([]byte, error)   { return []byte(`"` + w.of + `"`), nil }
func (w *written) UnmarshalJSON(b []byte) error   { return json.Unmarshal(b, &w.of) }
func (q quoted) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"Of": q.Of})
}

// preview adds what is for people, and reads the bytes.
func (p preview) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"Bytes": []byte(p.of), "Text": p.of})
}
func (p *preview) UnmarshalJSON(b []byte) error {
	var v struct{ Bytes []byte }
	err := json.Unmarshal(b, &v)
	p.of = string(v.Bytes)
	return err
}

type thread struct{ Parent *thread }

func threads(n int) (last *thread) {
	for range n {
		last = &thread{last}
	}
	return last
}

// What is not read back is refused by Check or Encode, and nothing else.
func TestJSONRefuses(t *testing.T) {
	type purse struct{ Total big.Int }
	sum := *big.NewInt(17)
	for _, c := range []struct {
		v     any
		named string // what the rule names; empty: accepted
	}{
		{v: bounds{1, 2}},
		{v: purse{sum}},
		{v: []purse{{sum}}},
		{v: map[string]*big.Int{"a": &sum}},
		{v: map[string][]purse{"a": {{sum}}}},
		{v: map[string]*purse{"a": {sum}}},
		{v: map[string]any{"a": "b"}},
		{v: map[int]string{1: "a"}},
		{v: map[string]view{"a": {"n", "s"}}, named: "kit.view"},
		{v: map[netip.Addr]string{netip.IPv6Loopback(): "a"}},
		{v: view{"n", "s"}},
		{v: &view{"n", "s"}, named: "kit.view"},
		{v: []view{{"n", "s"}}, named: "kit.view"},
		{v: struct {
			V view
			N *big.Int
		}{view{"n", "s"}, &sum}},
		{v: struct {
			Fee   fee `json:",omitzero"`
			Total big.Int
		}{Total: sum}},
		{v: struct {
			money
			view
		}{money{5, "EUR"}, view{"n", "s"}}, named: "kit.view"},
		{v: map[string]money{"a": {5, "EUR"}}, named: "kit.money"},
		{v: ledger{map[string]big.Int{"a": sum}}},
		{v: struct {
			Total big.Int
			Views map[string]view
		}{sum, map[string]view{"a": {"n", "s"}}}, named: "kit.view"},
		{v: struct {
			Total *big.Int
			V     view
		}{&sum, view{"n", "s"}}},
		{v: struct {
			Total big.Int
			V     view `json:"-"`
		}{Total: sum}},
		{v: struct {
			A int
			M map[string]big.Int `json:"-"`
		}{A: 1}},
		{v: tree{By: map[string]tree{"a": {Sum: sum}}}, named: "big.Int"},
		{v: &branch{Sum: sum, Left: &branch{More: []branch{{Sum: sum}}, By: map[string]*branch{"a": {Sum: sum}}}}},
		{v: struct {
			Total big.Int
			V     view
		}{sum, view{"n", "s"}}, named: "kit.view"},
		{v: struct {
			V     struct{ view }
			Total [1]big.Int
		}{struct{ view }{view{"n", "s"}}, [1]big.Int{sum}}, named: "kit.view"},
		{v: map[string]big.Int{"a": sum}, named: "big.Int"},
		{v: map[string]purse{"a": {sum}}, named: "big.Int"},
		{v: []map[string][1]big.Int{{"a": {sum}}}, named: "big.Int"},
		{v: &struct{ M map[string]struct{ purse } }{map[string]struct{ purse }{"a": {purse{sum}}}}, named: "big.Int"},
		{v: map[level]string{3: "a"}, named: "kit.level"},
		{v: struct{ P profile }{profile{"n"}}},
		{v: map[string]profile{"a": {"n"}}, named: "kit.profile"},
		{v: struct {
			P profile
			M map[string]profile
		}{M: map[string]profile{"a": {"n"}}}, named: "kit.profile"},
		{v: struct{ U user }{user{17}}},
		{v: struct{ ID halved }{halved{17}}},
		{v: struct{ ID halved }{halved{1541815603606036481}}, named: "kit.halved"},
		{v: map[time.Time]string{time.Unix(17, 0).UTC(): "a", time.Unix(18, 0).UTC(): "b"}},
		{v: map[time.Time]string{time.Unix(17, 0).UTC(): "a", time.Unix(17, 0).In(time.FixedZone("GMT", 0)): "b"}, named: "time.Time"},
		{v: map[point]secret{{52, 13}: "a", {52.5, 13}: "b"}},
		{v: map[point]secret{{52.001, 13}: "a", {52.002, 13}: "b"}, named: "kit.point"},
		{v: map[point]any{{52.001, 13}: "a", {52.002, 13}: "b"}, named: "kit.point"},
		{v: sums{map[string]big.Int{"a": sum}}},
		{v: struct{ S sums }{sums{map[string]big.Int{"a": sum}}}},
		{v: map[string]account{"a": {Balance: 17, mu: nil}}, named: "kit.account"},
		{v: map[string]either{"a": {1, 2}}, named: "kit.either"},
		{v: struct{ W wallet }{wallet{profile{"n"}}}},
		{v: map[string]wallet{"a": {profile{"n"}}}, named: "kit.profile"},
		{v: struct{ N noted }{noted{"a", "b"}}},
		{v: map[string]noted{"a": {Name: "a"}}, named: "kit.noted"},
		{v: map[string]noted{"a": {"a", "b"}}, named: "kit.noted"},
		{v: []map[string][]noted{{"a": {{"a", "b"}}}}},
		{v: []map[string][1]noted{{"a": {{"a", "b"}}}}, named: "kit.noted"},
		{v: &struct{ M *map[string]struct{ N noted } }{&map[string]struct{ N noted }{"a": {noted{"a", "b"}}}}, named: "kit.noted"},
		{v: map[string]struct {
			noted // of two of the same methods no one is taken
			either
		}{"a": {noted{Name: "a"}, either{1, 2}}}},
		{v: content{map[string]any{"a": 1.5}}},
		{v: one{1}},
		{v: one{1, 2}, named: "kit.one"},
		{v: struct { // by the address no read decodes the one, and by value the other is not all written
			V view
			N noted
		}{view{"n", "s"}, noted{"a", "b"}}, named: "kit.view"},
		{v: report[noted]{N: 1, At: noted{"a", "b"}}},
		{v: map[string]dash{"a": {"alice", time.Unix(1800000000, 0).UTC()}}, named: "kit.dash by pointer"},
		{v: map[string]span{"a": {time.Hour}}, named: "kit.span by pointer"}, // whose text may be less
		{v: map[string]*dash{"a": {"alice", time.Unix(1800000000, 0).UTC()}}},
		{v: map[string]struct{ D []dash }{"a": {[]dash{{"alice", time.Unix(1800000000, 0).UTC()}}}}},
		{v: map[string]struct{ *Purse }{"a": {&Purse{sum}}}}, // has an address
		{v: struct{ *fields }{&fields{1}}, named: "kit.fields"},
		{v: map[point]int{{1.001, 1}: 1, {1.002, 1}: 1, {1.003, 1}: 1}, named: "kit.point"},
		{v: map[netip.Addr]secret{netip.IPv6Loopback(): "a"}},
		{v: struct {
			S secret
			O one
		}{"a", one{1, 2}}, named: "kit.one"},
		{v: struct {
			S set
			O one
		}{set{"a": true, "b": true, "c": true}, one{1, 2}}, named: "kit.one"},
		{v: &balances{map[string]big.Int{"EUR": sum}}}, // encodes itself, and needs no decoder
		{v: []balances{{map[string]big.Int{"EUR": sum}}}},
		{v: struct{ Err error }{}},
		{v: struct{ Err error }{errors.New("no route")}, named: "error"},
		{v: struct{ Errs []error }{[]error{errors.New("a")}}, named: "error"},
		{v: struct{ M map[string]fmt.Stringer }{map[string]fmt.Stringer{"a": time.Second}}, named: "fmt.Stringer"},
		{v: struct {
			S []set
			H []history
		}{[]set{{"a": true, "b": true}}, []history{{"a", "b"}}}, named: "kit.history"},
		{v: history{"a"}},
		{v: history{"a", "b", "a"}},
		{v: history{"a", "b"}, named: "kit.history"},
		{v: [2]history{{"a", "a"}, {"a", "b"}}, named: "kit.history"},
		{v: []sorted{{"a", "b"}, {}}},
		{v: struct{ S sorted }{sorted{"b", "a"}}, named: "kit.sorted"},
		{v: wei{big.NewInt(17)}, named: "kit.wei"},
		{v: struct{ Price wei }{wei{big.NewInt(17)}}, named: "kit.wei"},
		{v: held{struct{ both }{big.NewInt(17)}}, named: "kit.both"},
		{v: struct {
			*fields `json:"f"`
		}{&fields{1}}, named: "kit.fields"},
		{v: rank{17}, named: "kit.rank"},
		{v: threads(10_000)},
		{v: threads(10_001), named: "10,000 levels"},
		{v: "\u00e9\ufffd\ud7ff"},
		{v: "\xe9", named: "UTF-8"},
		{v: []any{[]string{"a", "\xff"}}, named: "UTF-8"},
		{v: struct{ M map[string][]int }{map[string][]int{"\xff": nil}}, named: "UTF-8"},
		{v: map[label]int{"\xff": 1}, named: "UTF-8"},
		{v: struct{ B []byte }{[]byte("\xff")}},
		{v: json.RawMessage(`"\ufffd"`)},
		{v: json.RawMessage("\"\xff\"")},
		{v: struct{ R json.RawMessage }{json.RawMessage("\"\xff\"")}, named: "UTF-8"},
		{v: sealed{"\ufffd"}},
		{v: sealed{`\ufffd`}},
		{v: sealed{"\xff"}, named: "UTF-8"},
		{v: map[string]*sealed{"a": {"\xff"}}, named: "UTF-8"},
		{v: struct{ A any }{[]sealed{{"\xff"}}}, named: "UTF-8"},
		{v: map[sealed]int{{"\ufffd"}: 1}},
		{v: map[sealed]int{{"\xff"}: 1}, named: "UTF-8"},
		{v: struct{ W []written }{[]written{{"\ufffd"}}}},
		{v: &written{"\xff"}, named: "UTF-8"},
		{v: quoted{"\ufffd"}},
		{v: struct{ Q quoted }{quoted{"\xff"}}, named: "UTF-8"},
		{v: struct{ P preview }{preview{"\xff"}}},
		{v: struct{ A any }{sum}, named: "big.Int"},
		{v: []map[string]any{{"a": purse{sum}}}, named: "big.Int"},
		{v: []any{map[string]big.Int{"a": sum}}, named: "big.Int"},
	} {
		err := ofJSON.Check(reflect.TypeOf(c.v))
		b, bad := JSON{}.Encode(c.v)
		if err == nil {
			err = bad
		}
		if bad == nil {
			into := reflect.New(reflect.TypeOf(c.v))
			bad = json.Unmarshal(b, into.Interface())
			if bad == nil && !reflect.DeepEqual(into.Elem().Interface(), c.v) {
				bad = fmt.Errorf("read as %+v", into.Elem())
			}
		}
		if (bad == nil) != (err == nil) {
			t.Errorf("%T: %+v is stored as %s, %v, and was refused: %v", c.v, c.v, b, bad, err)
		}
		var invalid *driver.InvalidError
		if c.named != "" && (!errors.As(err, &invalid) || !strings.Contains(invalid.Rule, c.named)) {
			t.Errorf("%T: error %v, want one that names %s", c.v, err, c.named)
		}
		if c.named == "" && err != nil {
			t.Error(err)
		}
	}
}

// Raw JSON that is not UTF-8 is read back as it is into its own type, and not into an any.
func TestRawJSON(t *testing.T) {
	loose, err := JSONOf[any]()
	if err != nil {
		t.Fatal(err)
	}
	own, err := JSONOf[json.RawMessage]()
	if err != nil {
		t.Fatal(err)
	}
	raw := json.RawMessage("\"\xe9\"")
	for _, v := range []any{raw, &raw, []any{raw}} {
		if b, err := loose.Encode(v); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a %T in an any is stored as %q, %v", v, b, err)
		}
	}
	if b, err := own.Encode(raw); err != nil || string(b) != string(raw) {
		t.Errorf("%q is stored as %q, %v", raw, b, err)
	}
}

// prices1 and prices2 have a map in which nothing has an address.
type prices1 struct{ Sums map[string]big.Int }

type prices2 struct {
	Sums map[string]big.Int `json:"sums2"`
}

type sumsTagged struct {
	By map[string]big.Int `json:"Sums"`
}

type sums1 struct {
	Sums map[string]string `json:"sums1"`
}

// Of fields of one name only the one that encoding/json sees counts.
func TestJSONOfCoveredFields(t *testing.T) {
	type pointers struct {
		Sums map[string]*big.Int
	}
	type tagged struct {
		By map[string]string `json:"Sums"`
	}
	for _, c := range []struct {
		v    any
		lost bool
	}{
		{v: struct {
			prices1
			Sums map[string]*big.Int
		}{}},
		{v: struct {
			prices1
			By map[string]*big.Int `json:"Sums"`
		}{}},
		{v: struct { // it has both
			prices1
			Sums map[string]*big.Int `json:"sums"`
		}{}, lost: true},
		{v: struct { // it has both, though Go has none
			prices2
			sums1
		}{}, lost: true},
		{v: struct { // it has none
			prices1
			pointers
		}{}},
		{v: struct { // it has the one with the tag
			prices1
			tagged
		}{}},
		{v: struct {
			prices2
			tagged
		}{}, lost: true},
		{v: struct {
			sumsTagged
			pointers
		}{}, lost: true},
		{v: struct {
			struct1
			tagged
		}{}},
		{v: struct {
			prices1 `json:"inner"`
			Sums    map[string]*big.Int
		}{}, lost: true},
		{v: struct {
			prices1 `json:"-"`
		}{}},
		{v: struct{ *prices1 }{}, lost: true},
	} {
		if err := ofJSON.Check(reflect.TypeOf(c.v)); (err != nil) != c.lost {
			t.Errorf("%T: %v, want an error: %v", c.v, err, c.lost)
		}
	}
}

// struct1 has it one level deeper.
type struct1 struct{ prices1 }

type (
	team     struct{ Lead *employee }
	employee struct {
		Name string
		Team *team // leads back
	}
	overview struct {
		*employee
		Team  *struct{} `json:",omitempty"` // covers that
		Total big.Int
		Seen  map[netip.Addr]int
	}
)

// A way back that another field covers is followed by nobody.
func TestJSONOfCoveredCycle(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
	e := &employee{Name: "e"}
	e.Team = &team{Lead: e}
	b, err := JSON{}.Encode(overview{employee: e, Total: *big.NewInt(17), Seen: map[netip.Addr]int{netip.IPv6Loopback(): 1}})
	if want := `{"Name":"e","Total":17,"Seen":{"::1":1}}`; string(b) != want {
		// No read makes what it embeds by a pointer, which is not exported.
		if _, invalid := errors.AsType[*driver.InvalidError](err); !invalid {
			t.Errorf("%s, %v", b, err)
		}
	}
	type Employee employee
	b, err = JSON{}.Encode(struct {
		*Employee
		Team  *struct{} `json:",omitempty"`
		Total big.Int
		Seen  map[netip.Addr]int
	}{(*Employee)(e), nil, *big.NewInt(17), map[netip.Addr]int{netip.IPv6Loopback(): 1}})
	if want := `{"Name":"e","Total":17,"Seen":{"::1":1}}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}

// No read knows what to make for an interface that has methods; any is read as what encoding/json makes.
func TestJSONOfTypeOfInterface(t *testing.T) {
	if _, err := JSONOf[shape](); err == nil || !strings.Contains(err.Error(), "interface") {
		t.Error(err)
	}
	codec, err := JSONOf[any]()
	if err != nil {
		t.Error(err)
	}
	for _, v := range []any{&view{"n", "s"}, map[point]int{{1.001, 1}: 1, {1.002, 1}: 2}, []error{errors.New("a")}, []any{fast{1}, &view{"n", "s"}}} {
		if _, err := codec.Encode(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, v := range []any{map[string]big.Int{"a": {}}, []any{view{"n", "s"}}, []any{big.Int{}}} {
		if _, err := codec.Encode(v); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%T: %v, want it refused", v, err)
		}
	}
}

// event fills in a default.
type event struct {
	Name string
	Data map[string]any
}

func (e *event) UnmarshalJSON(b []byte) error {
	type plain event
	p := plain{Name: "unnamed"}
	err := json.Unmarshal(b, &p)
	*e = event(p)
	return err
}

// A number is the same by its value, not by its digits.
func TestJSONComparesNumbers(t *testing.T) {
	for number, kept := range map[string]bool{
		"10.00": true, "1e3": true, "-1.50": true, "0.0": true, "1E-2": true, "1000000000000000000000": true,
		"9007199254740993": false, "0.10000000000000000000001": false, "1e400": false, "1e99999999999": false,
	} {
		if _, err := (JSON{}).Encode(event{"a", map[string]any{"n": json.Number(number)}}); (err == nil) != kept {
			t.Errorf("%s: %v", number, err)
		}
	}
	for text, kept := range map[string]bool{"10": true, "10.00": false} {
		v := struct{ T trimmed }{trimmed(text)}
		if _, err := (JSON{}).Encode(v); (err == nil) != kept {
			t.Errorf("the text %s: %v", text, err)
		}
	}
	for name, kept := range map[string]bool{"a": true, "": false} { // read as a default
		if _, err := (JSON{}).Encode(titled{name}); (err == nil) != kept {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

type titled struct {
	Name string `json:",omitempty"`
}

func (n *titled) UnmarshalJSON(b []byte) error {
	type plain titled
	p := plain{"untitled"}
	err := json.Unmarshal(b, &p)
	*n = titled(p)
	return err
}

// trimmed reads a text as a number.
type trimmed string

func (r *trimmed) UnmarshalJSON(b []byte) error {
	*r = trimmed(strings.TrimSuffix(strings.Trim(string(b), `"`), ".00"))
	return nil
}
