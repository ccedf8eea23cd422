package kit

import (
	"encoding"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Methods are the interfaces of values that encode and decode themselves; nil: the encoder or the decoder has none.
type Methods struct{ Encode, Decode reflect.Type }

// Encoding is an encoder with its decoder.
type Encoding struct {
	Name   func(reflect.StructTag) (name, options string, omits bool) // what a tag calls its field, empty: nothing, and whether it leaves it out
	Pairs  []Methods                                                  // the first that a value has counts
	Keys   []reflect.Type                                             // interfaces that write or read a map's key
	Native func(reflect.Type) bool                                    // what it stores by itself, unless that has one of Pairs; nil: none
	Lost   []reflect.Kind                                             // what it leaves out
	Named  bool                                                       // it looks for a pointer's methods only of types that have a name
	Blind  bool                                                       // it ends with no error at what holds itself, keys of one text or not equal to themselves, and forms that it does not read
	Encode func(v any) (any, error)
	Decode func(encoded, into any) error
	Says   func(encoded any, in Said, order bool) error // adds all of it, with the order of lists or without

	types sync.Map // what doubt is known of each
	parts sync.Map // the part that is known of each
}

// Given returns what the encoder is given for v: a pointer to a copy of it, or v itself. Where v was tried, it also
// returns what that was encoded to.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and decoders call
// them all. Methods that are a pair are taken at their word: what they leave out is not stored. Where a type encodes itself
// and does not decode itself, or the reverse, for keys that have a text, and for interfaces that have methods, the type does
// not tell what is read back. So a value with such parts is encoded, decoded and encoded again, and Given returns the first
// form that says the same again, or an *InvalidError. loose: a read decodes into another type, and nothing is tried. What an
// interface holds has no address, and is refused where its pointer encodes something else.
func (e *Encoding) Given(v any, loose bool) (given, encoded any, err error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return v, nil, nil
	}
	invalid := func(rule string) error {
		return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: rule}
	}
	d := e.doubtOf(t)
	if d.lost != "" && loose {
		return nil, nil, invalid(d.lost)
	} else if d.lost != "" {
		return nil, nil, e.Check(t)
	}
	forms := []any{v}
	if d.bypassed {
		p := reflect.New(t)
		p.Elem().Set(reflect.ValueOf(v))
		switch address := p.Interface(); {
		case d.hides || loose:
			forms = []any{address}
		case d.decoded:
			forms = []any{address, v}
		default:
			forms = []any{v, address}
		}
	}
	if d.holds || e.Blind && (d.loops || d.keys) {
		if rule := (search{Encoding: e}).in(reflect.ValueOf(forms[0]), deepest, 0); rule != "" {
			return nil, nil, invalid(rule)
		}
	}
	if d.of == "" || loose {
		return forms[0], nil, nil
	}
	encodes := false
	for _, form := range forms {
		encoded, kept := e.keeps(t, form, d.compared)
		if kept {
			return form, encoded, nil
		}
		encodes = encodes || encoded != nil
	}
	if !encodes { // the encoder's error tells more
		return forms[0], nil, nil
	}
	return nil, nil, invalid("must be read back as it is, and is not: look at how " + d.of + " encodes and decodes itself, hold by pointer what only its pointer encodes, and nothing in an interface that has methods")
}

// tries is how often a value is encoded before it is taken for one that always says the same. Go goes through a map of two
// in the one order 7 times of 8.
const tries = 256

// keeps returns what v, a t or its address, is encoded to, nil if it is not, and whether that is read, and compared says the
// same. What v says differently each time is not held against it. A panic is one of the value's methods.
func (e *Encoding) keeps(t reflect.Type, v any, compared bool) (encoded any, kept bool) {
	defer func() { _ = recover() }()
	encoded, err := e.Encode(v)
	if err != nil {
		return nil, false
	}
	read := reflect.New(t)
	if e.Decode(encoded, read.Interface()) != nil {
		return encoded, false
	}
	if !compared {
		return encoded, true
	}
	if reflect.TypeOf(v) == t {
		read = read.Elem()
	}
	again, err := e.Encode(read.Interface())
	return encoded, err == nil && e.saysAll(again, v, encoded)
}

// saysAll reports whether is says what v, which was encoded to was, says each time.
func (e *Encoding) saysAll(is, v, was any) bool {
	if reflect.DeepEqual(was, is) {
		return true
	}
	lost, said := e.said(was), e.said(is)
	if lost == nil {
		return false // it cannot be told
	}
	maps.DeleteFunc(lost, func(at, sum uint64) bool { return said[at] == sum })
	for left := tries; len(lost) > 0 && left > 0; left-- {
		next, err := e.Encode(v)
		if err != nil {
			return false
		}
		if reflect.DeepEqual(was, next) {
			continue
		}
		said := e.said(next)
		maps.DeleteFunc(lost, func(at, sum uint64) bool { return said[at] != sum })
	}
	return len(lost) == 0
}

// Said is what is encoded, without the spelling of numbers: for each place a sum of all that stands there.
type Said map[uint64]uint64

var seed = maphash.MakeSeed()

// Place is the names that lead to a part, and with the order of lists the indices. That of the whole is the zero Place.
// What stands at all indices is one sum, so that two elements which change places show in it.
type Place struct{ names, indices uint64 }

// In returns the place of a name.
func (p Place) In(name string) Place {
	p.names = maphash.Comparable(seed, [2]any{p.names, name})
	return p
}

// At returns the place of an element of a list.
func (p Place) At(i int, order bool) Place {
	p.names = maphash.Comparable(seed, [2]any{p.names, order})
	if order {
		p.indices = maphash.Comparable(seed, [2]any{p.indices, i})
	}
	return p
}

// Add adds what stands in a place, numbers as a json.Number.
func (s Said) Add(at Place, v any) {
	if number, ok := v.(json.Number); ok {
		if f, _, err := big.ParseFloat(string(number), 10, 1000, big.ToNearestEven); err == nil {
			v = json.Number(f.Text('p', 0))
		}
	}
	s[at.names] += maphash.Comparable(seed, [2]any{at.indices, v})
}

// said has what is encoded with the order of lists and without: of a set that is written in another order each time, it is
// the same without.
func (e *Encoding) said(encoded any) Said {
	said := make(Said)
	if e.Says(encoded, said, false) != nil || e.Says(encoded, said, true) != nil {
		return nil
	}
	return said
}

// Check returns an *InvalidError for a t of which a part is never kept.
func (e *Encoding) Check(t reflect.Type) error {
	if rule := e.doubtOf(t).lost; rule != "" {
		return &driver.InvalidError{Field: "T", Value: t.String(), Rule: rule}
	}
	return nil
}

// doubt is what a type tells of its values.
type doubt struct {
	of       string // the parts of which it does not tell that they are read back; empty: none
	compared bool   // nor that they say the same
	loops    bool   // one may hold itself
	holds    bool   // parts of any type, in an interface
	keys     bool   // keys of a map may have one text, or be not equal to themselves
	lost     string // the rule that each breaks; empty: none

	bypassed bool // without its address, a part is not encoded by its pointer's method
	decoded  bool // and decoded by one all the same
	hides    bool // of the same pair, and it may have more than is encoded so
}

// place is where a part is.
type place struct {
	addressed bool // the encoder can address it
	pointed   bool // it is right behind a pointer
}

// doubtOf walks t as the encoder does, with and without an address.
func (e *Encoding) doubtOf(t reflect.Type) *doubt {
	if known, ok := e.types.Load(t); ok {
		return known.(*doubt)
	}
	d, without := e.walk(t, place{true, true}), e.walk(t, place{false, true})
	d.bypassed, d.decoded, d.hides = without.bypassed, without.decoded, without.hides
	d.loops, d.holds, d.keys = d.loops || without.loops, d.holds || without.holds, d.keys || without.keys
	e.types.Store(t, d)
	return d
}

func (e *Encoding) walk(t reflect.Type, at place) *doubt {
	type visit struct {
		reflect.Type
		place
	}
	visited := make(map[visit]bool) // true: not to its end
	d := new(doubt)
	var of, borrowed []string
	lost := func(format string, args ...any) { d.lost = fmt.Sprintf(format, args...) }
	var within func(reflect.Type, place)
	within = func(t reflect.Type, at place) {
		if around, ok := visited[visit{t, at}]; ok {
			d.loops = d.loops || around
			return
		}
		visited[visit{t, at}] = true
		defer func() { visited[visit{t, at}] = false }()
		p := e.part(t)
		encoded, decoded := p.encodes(at.addressed), p.decoded
		if t.Name() == "" && !at.pointed { // no decoder looks for its methods
			decoded = -1
		}
		nullable := e.Blind && encoded >= 0 && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) // nil is NULL, without a method
		if encoded != decoded || nullable {
			of = append(of, t.String())
		} else if p.borrowed { // a method of its own is taken at its word
			borrowed = append(borrowed, t.String())
		}
		if encoded != p.byPointer {
			d.bypassed, d.decoded = true, d.decoded || decoded >= 0
			d.hides = d.hides || decoded == p.byPointer && !plain(t)
			if encoded < 0 || decoded == p.byPointer {
				lost("must hold %v by pointer, whose methods encode it, since nothing in a map has an address", t)
			}
		}
		if encoded >= 0 || e.native(t) {
			return
		}
		if p.byPointer < 0 && isOpaque(t) {
			lost("must not hold %v, which has no exported field, and encodes itself only for others", t)
		}
		if slices.Contains(e.Lost, t.Kind()) {
			lost("must not hold %v, which is not encoded", t)
		}
		switch t.Kind() {
		case reflect.Interface:
			d.loops, d.holds = true, true
			if t.NumMethod() > 0 { // no decoder knows what to make for it
				of = append(of, t.String())
			}
		case reflect.Pointer:
			within(t.Elem(), place{true, true})
		case reflect.Slice:
			within(t.Elem(), place{addressed: true})
		case reflect.Array:
			within(t.Elem(), place{addressed: at.addressed})
		case reflect.Map:
			if e.oddKey(t.Key()) {
				d.keys = true
				of = append(of, t.Key().String())
			}
			if k := t.Key().Kind(); k >= reflect.Float32 && k <= reflect.Complex128 { // NaN
				d.keys = true
			}
			within(t.Elem(), place{})
		case reflect.Struct:
			for _, f := range p.fields {
				if f.odd != nil {
					of = append(of, f.odd.String())
				}
				if e.styled(f) {
					of = append(of, f.Type.String())
				}
				if f.name == "" {
					lost("must give %v a name, or a tag with one: of an embedded struct the fields are encoded", f.Type)
				}
				within(f.Type, place{addressed: at.addressed || f.behind})
			}
		}
	}
	if within(t, at); t.Kind() == reflect.Interface && t.NumMethod() > 0 {
		lost("must not be an interface that has methods, since no read knows what to make for it: hold it in a struct that decodes it")
	}
	d.compared = len(of) > 0
	of = append(of, borrowed...)
	slices.Sort(of)
	d.of = strings.Join(slices.Compact(of), ", ")
	return d
}

// part is by which of the pairs a type is encoded without and with its address, and decoded; -1: by none.
type part struct {
	byValue, byPointer, decoded int
	borrowed                    bool    // its method to decode may be that of an embedded pointer or interface, of which a read has none
	fields                      []field // those of a struct that are encoded without methods
}

func (p *part) encodes(addressed bool) int {
	if addressed {
		return p.byPointer
	}
	return p.byValue
}

// byItself reports whether a method encodes or decodes it.
func (p *part) byItself() bool { return max(p.byPointer, p.decoded) >= 0 }

func (e *Encoding) part(t reflect.Type) *part {
	if known, ok := e.parts.Load(t); ok {
		return known.(*part)
	}
	p := &part{byValue: -1, byPointer: -1, decoded: -1}
	if k := t.Kind(); k != reflect.Pointer && k != reflect.Interface { // which have the methods of what they hold
		address := reflect.PointerTo(t)
		for i, m := range slices.Backward(e.Pairs) {
			if has(t, m.Encode) {
				p.byValue, p.byPointer = i, i
			} else if has(address, m.Encode) && (t.Name() != "" || !e.Named) {
				p.byPointer = i
			}
			if has(address, m.Decode) {
				p.decoded = i
				p.borrowed = t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
					return f.Anonymous && (f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Interface) && has(f.Type, m.Decode)
				})
			}
		}
	}
	if t.Kind() == reflect.Struct {
		p.fields = e.fields(t)
	}
	e.parts.Store(t, p)
	return p
}

// field is one of a struct, or of the structs that are embedded in it.
type field struct {
	reflect.StructField        // with its Index in the outermost
	name, options       string // as it is encoded; no name: it is embedded, and stored only under one
	tagged              bool
	behind              bool         // an embedded pointer
	odd                 reflect.Type // that it is embedded in, or its own, and no decoder makes
}

// fields returns those of a struct that encoders see: of those of one name the least deep, if that is one, or one alone has
// the name by its tag.
func (e *Encoding) fields(t reflect.Type) (seen []field) {
	taken, visited := make(map[string]bool), make(map[reflect.Type]bool)
	for level := []field{{StructField: reflect.StructField{Type: t}}}; len(level) > 0; {
		var embedded []field
		named := make(map[string][]field)
		for _, in := range level {
			visited[in.Type] = true
			for i := range in.Type.NumField() {
				f := field{StructField: in.Type.Field(i), behind: in.behind, odd: in.odd}
				f.Index = slices.Concat(in.Index, f.Index)
				held := f.Type
				if held.Kind() == reflect.Pointer {
					held = held.Elem()
				}
				embeds := f.Anonymous && held.Kind() == reflect.Struct
				if embeds && held != f.Type && !f.IsExported() {
					f.odd = held
				}
				name, options, omits := e.Name(f.Tag)
				f.options = options
				switch {
				case omits || !f.IsExported() && !embeds:
				case embeds && name == "" && e.native(held):
					seen = append(seen, f)
				case embeds && name == "":
					f.behind, f.Type = f.behind || held != f.Type, held
					embedded = append(embedded, f)
				default:
					if f.name, f.tagged = name, name != ""; name == "" {
						f.name = f.Name
					}
					named[f.name] = append(named[f.name], f)
				}
			}
		}
		for name, all := range named {
			if tagged := slices.DeleteFunc(slices.Clone(all), func(f field) bool { return !f.tagged }); len(tagged) > 0 {
				all = tagged
			}
			if !taken[name] && len(all) == 1 {
				seen = append(seen, all[0])
			}
			taken[name] = true
		}
		level = slices.DeleteFunc(embedded, func(f field) bool { return visited[f.Type] })
	}
	slices.SortFunc(seen, func(a, b field) int { return slices.Compare(a.Index, b.Index) })
	return seen
}

func (e *Encoding) native(t reflect.Type) bool { return e.Native != nil && e.Native(t) }

// oddKey reports whether a key may be read as another than it was written as.
func (e *Encoding) oddKey(t reflect.Type) bool {
	return !plain(t) || slices.ContainsFunc(e.Keys, func(m reflect.Type) bool { return has(reflect.PointerTo(t), m) })
}

// plain reports whether a t has nothing that an encoder leaves out.
func plain(t reflect.Type) bool { return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String }

// styled reports whether a field's tag asks for a text or a set, of which decoders read not all that they are written from.
func (e *Encoding) styled(f field) bool {
	held := f.Type
	for range 2 { // a pointer to a list
		if k := held.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Array {
			held = held.Elem()
		}
	}
	asks := func(option string) bool { return option == "string" || e.Blind && strings.HasSuffix(option, "set") }
	return slices.ContainsFunc(strings.Split(f.options, ","), asks) &&
		(e.part(held).byItself() && (e.Blind || plain(held)) || e.Blind && (e.native(held) || held.Kind() == reflect.Interface))
}

var toText, ofText = reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()

// isOpaque reports whether t is a struct of which no field is encoded, and which has a form that some encoder takes.
func isOpaque(t reflect.Type) bool {
	forms := []reflect.Type{toText, reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.BinaryMarshaler]()}
	return t.Kind() == reflect.Struct && t.NumField() > 0 && slices.ContainsFunc(forms, reflect.PointerTo(t).Implements) &&
		!slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.IsExported() })
}

func has(t, methods reflect.Type) bool { return methods != nil && t.Implements(methods) }

// deepest is far more levels than any store takes, and far less than what ends the process. encoding/json has three for each
// of its own, of which it decodes 10,000.
const deepest = 30_000

// search looks for what a value breaks without a word of the encoder.
type search struct {
	*Encoding
	replaced bool // also for text in what methods write, of which the encoder has replaced some
}

const notText = "must have no text that is not UTF-8: hold bytes as a []byte"

// mostHeld is how many parts around each other are compared with what their pointers encode. Each is encoded with all
// that it holds.
const mostHeld = 100

// in returns the rule that v breaks, down to so many levels. held: v is in an interface, and one more for each part around it
// that is compared; zero: it is in none.
func (s search) in(v reflect.Value, levels, held int) (broken string) {
	t := v.Type()
	p, k := s.part(t), t.Kind()
	encoded := p.encodes(v.CanAddr()) >= 0
	if held > 0 && !v.CanAddr() && p.byValue != p.byPointer {
		if held > mostHeld || s.bypasses(v) {
			return fmt.Sprintf("must hold %v by pointer, whose methods encode it, since nothing in an interface has an address", t)
		}
		held++
	}
	switch {
	case levels == 0:
		return "must not hold itself, nor be thousands of levels deep"
	case encoded && s.replaced && replaces(v):
		return notText
	case encoded || s.native(t):
		return ""
	}
	switch k {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return notText
		}
	case reflect.Interface:
		return s.held(v.Elem(), levels-1, max(held, 1))
	case reflect.Pointer:
		if !v.IsNil() {
			return s.in(v.Elem(), levels-1, held)
		}
	case reflect.Struct:
		for i := 0; i < len(p.fields) && broken == ""; i++ {
			if in, err := v.FieldByIndexErr(p.fields[i].Index); err == nil {
				broken = s.in(in, levels-1, held)
			}
		}
	case reflect.Map:
		if m, ok := v.Interface().(map[string]any); ok { // at less cost
			for key, in := range m {
				if !utf8.ValidString(key) {
					return notText
				}
				if broken = s.held(reflect.ValueOf(in), levels-1, max(held, 1)); broken != "" {
					return broken
				}
			}
			return ""
		}
		for all := v.MapRange(); all.Next() && broken == ""; {
			broken = s.in(all.Value(), levels-1, held)
		}
		if broken == "" {
			broken = s.inKeys(v)
		}
	case reflect.Slice, reflect.Array:
		elem := t.Elem()
		for i := 0; i < v.Len() && broken == "" && (!plain(elem) || elem.Kind() == reflect.String); i++ {
			broken = s.in(v.Index(i), levels-1, held)
		}
	}
	return broken
}

// held is in for what an interface holds.
func (s search) held(v reflect.Value, levels, held int) string {
	if !v.IsValid() {
		return ""
	}
	if lost := s.doubtOf(v.Type()).lost; lost != "" {
		return lost
	}
	return s.in(v, levels, held)
}

// inKeys returns the rule that the keys of a map break.
func (s search) inKeys(m reflect.Value) string {
	t := m.Type().Key()
	asIs := t.Kind() == reflect.String && (!s.Blind || !has(t, toText)) // encoding/json asks no key of a string kind
	if asIs {
		for keys := m.MapRange(); keys.Next(); {
			if !utf8.ValidString(keys.Key().String()) {
				return notText
			}
		}
	}
	if s.Blind && t.Kind() != reflect.String {
		for keys := m.MapRange(); keys.Next(); {
			if !m.MapIndex(keys.Key()).IsValid() {
				return "must have no key in a map that is not equal to itself, such as NaN: its value is not found"
			}
		}
	}
	if !s.oddKey(t) || !s.Blind && (asIs || !s.replaced) {
		return ""
	}
	texts := reflect.MakeMap(reflect.MapOf(t, reflect.TypeFor[bool]()))
	for keys := m.MapRange(); keys.Next(); {
		texts.SetMapIndex(keys.Key(), reflect.ValueOf(true))
	}
	if s.replaced && replaces(texts) {
		return notText
	}
	if s.Blind && m.Len() > 1 {
		if encoded, err := s.Encode(texts.Interface()); err == nil && len(s.said(encoded)) <= m.Len() { // with the place of the whole
			return "must have no two keys in a map that have one text"
		}
	}
	return ""
}

// bypasses reports whether a pointer's methods encode something else than v.
func (s search) bypasses(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	address := reflect.New(v.Type())
	address.Elem().Set(v)
	was, err := s.Encode(address.Interface())
	is, bad := s.Encode(v.Interface())
	return err == nil && bad == nil && !s.saysAll(is, address.Interface(), was)
}
