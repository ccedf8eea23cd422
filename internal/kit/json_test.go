package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
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
		{v: map[string]view{"a": {"n", "s"}}},
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
		}{sum, map[string]view{"a": {"n", "s"}}}},
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
		{v: struct{ U user }{user{1541815603606036481}}, named: "kit.user"},
		{v: map[time.Time]string{time.Unix(17, 0).UTC(): "a", time.Unix(18, 0).UTC(): "b"}},
		{v: map[time.Time]string{time.Unix(17, 0).UTC(): "a", time.Unix(17, 0).In(time.FixedZone("GMT", 0)): "b"}, named: "time.Time"},
		{v: map[point]secret{{52, 13}: "a", {52.5, 13}: "b"}},
		{v: map[point]secret{{52.001, 13}: "a", {52.002, 13}: "b"}, named: "kit.point"},
		{v: map[point]any{{52.001, 13}: "a", {52.002, 13}: "b"}, named: "kit.point"},
		{v: sums{map[string]big.Int{"a": sum}}},
		{v: struct{ S sums }{sums{map[string]big.Int{"a": sum}}}},
		{v: map[string]account{"a": {Balance: 17, mu: nil}}},
		{v: map[string]either{"a": {1, 2}}},
		{v: struct{ W wallet }{wallet{profile{"n"}}}},
		{v: map[string]wallet{"a": {profile{"n"}}}, named: "kit.profile"},
		{v: struct{ N noted }{noted{"a", "b"}}},
		{v: map[string]noted{"a": {Name: "a"}}},
		{v: map[string]noted{"a": {"a", "b"}}, named: "kit.noted"},
		{v: []map[string][]noted{{"a": {{"a", "b"}}}}},
		{v: []map[string][1]noted{{"a": {{"a", "b"}}}}, named: "kit.noted"},
		{v: &struct{ M *map[string]struct{ N noted } }{&map[string]struct{ N noted }{"a": {noted{"a", "b"}}}}, named: "kit.noted"},
		{v: map[string]struct {
			noted // of two of the same methods no one is taken
			either
		}{"a": {noted{Name: "a"}, either{1, 2}}}},
		{v: struct {
			Of struct { // encoding/json decodes by its fields
				noted
				N int
			}
		}{struct {
			noted
			N int
		}{noted{"a", "b"}, 1}}, named: "kit.noted"},
		{v: content{map[string]any{"a": 1.5}}},
		{v: content{map[string]any{"a": int64(1<<53 + 1)}}, named: "kit.content"},
		{v: one{1}},
		{v: one{1, 2}, named: "kit.one"},
		{v: struct {
			user any
			U    user `json:"user"`
		}{nil, user{1541815603606036481}}, named: "kit.user"},
		{v: struct{ Err error }{}},
		{v: struct{ Err error }{errors.New("no route")}, named: "error"},
		{v: struct{ Errs []error }{[]error{errors.New("a")}}, named: "error"},
		{v: struct{ M map[string]fmt.Stringer }{map[string]fmt.Stringer{"a": time.Second}}, named: "fmt.Stringer"},
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
