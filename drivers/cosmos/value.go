package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// property is a property that the driver writes, with its value as JSON.
type property struct{ name, value string }

func quoted(s string) string {
	b, _ := json.Marshal(s) // cannot fail for strings
	return string(b)
}

// own returns the driver's properties except the life.
func (d *Driver[T]) own(k identity, version driver.Version) []property {
	own := []property{{"id", quoted(k.id)}, {d.opts.Version, strconv.FormatUint(uint64(version), 10)}}
	for i, p := range d.opts.PartitionKey {
		if name := strings.TrimPrefix(p.Path, "/"); p.Path != idPath && !strings.Contains(name, "/") {
			own = append(own, property{name, quoted(k.partition[i])})
		}
	}
	return own
}

// life returns the properties of a record's life.
func (o *Options) life(l driver.Life, now driver.Instant) []property {
	life := []property{{ttlName, strconv.FormatInt(o.ttl(l, now), 10)}}
	if l.CreatedAt != 0 {
		life = append(life, property{o.CreatedAt, quoted(written(l.CreatedAt))})
	}
	if l.ExpiresAt != 0 {
		life = append(life, property{o.ExpiresAt, quoted(written(l.ExpiresAt))})
	}
	return life
}

// encode returns the item for v.
func (d *Driver[T]) encode(k identity, v T, version driver.Version, l driver.Life, now driver.Instant) ([]byte, error) {
	if err := l.Check(latest); err != nil {
		return nil, err
	}
	invalid := func(rule string, err error) error {
		return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: rule, Err: err}
	}
	body, err := d.opts.Codec.Encode(v)
	if err != nil {
		return nil, kit.NotEncoded(v, d.opts.Codec, unquoted{err})
	}
	value := gjson.ParseBytes(body)
	if !value.IsObject() || !gjson.ValidBytes(body) {
		return nil, invalid("must encode to a JSON object, as a struct or a map does", nil)
	}
	if !utf8.Valid(body) {
		return nil, invalid("must encode to UTF-8, as Cosmos DB stores no other text", nil)
	}
	if !exact(value) {
		return nil, invalid("must have only numbers that a float64 gives back as the same decimal, as Cosmos DB stores no others: encode such a number as a string", nil)
	}
	if err := d.checkNested(k, value); err != nil {
		return nil, err
	}
	own := d.own(k, version)
	if d.triesKeys {
		if _, _, err := d.through(own); err != nil {
			return nil, invalid("must be one whose fields hold the item's key", err)
		}
	}
	item := make([]byte, 0, len(body)+256)
	item = append(item, '{')
	for i, p := range append(own, d.opts.life(l, now)...) {
		if i > 0 {
			item = append(item, ',')
		}
		item = append(append(append(item, quoted(p.name)...), ':'), p.value...)
	}
	value.ForEach(func(name, value gjson.Result) bool {
		if !d.reserved(name.Str) {
			item = append(append(append(append(item, ','), name.Raw...), ':'), value.Raw...)
		}
		return true
	})
	return append(item, '}'), nil
}

// reserved reports whether a property is not the value's to write.
func (d *Driver[T]) reserved(name string) bool {
	o := &d.opts
	switch name {
	case "id", ttlName, o.CreatedAt, o.ExpiresAt, o.Version:
		return true
	}
	return slices.Contains(systemNames, name) ||
		!strings.Contains(name, "/") && slices.ContainsFunc(o.PartitionKey, func(p KeyProperty) bool { return p.Path == "/"+name })
}

// checkNested rejects a value without a nested property of the partition key.
func (d *Driver[T]) checkNested(k identity, value gjson.Result) error {
	for i, p := range d.opts.PartitionKey {
		names := strings.Split(p.Path, "/")[1:]
		if len(names) < 2 {
			continue
		}
		if propertyAt(value, names...).Str != k.partition[i] {
			return &driver.InvalidError{Field: "value", Value: "without the partition key", Rule: fmt.Sprintf("must have at %s the value that Options.PartitionKey[%d].Of returns", p.Path, i)}
		}
	}
	return nil
}

// exact reports whether Cosmos DB returns all numbers in v as the same decimals. A float64 comes back
// in its shortest form.
func exact(v gjson.Result) bool {
	switch {
	case v.Type == gjson.Number:
		const sure = 15 // decimal digits that a float64 always gives back
		if len(v.Raw) <= sure && !strings.ContainsAny(v.Raw, "eE") {
			return true
		}
		digits, exponent := decimal(v.Raw)
		got, of := decimal(strconv.FormatFloat(v.Num, 'e', -1, 64))
		return digits == got && exponent == of
	case v.IsObject() || v.IsArray():
		all := true
		v.ForEach(func(_, value gjson.Result) bool {
			all = exact(value)
			return all
		})
		return all
	}
	return true
}

// decimal returns the digits of a number in JSON, without zeros at either end, and their exponent. The
// sign is left out.
func decimal(number string) (digits string, exponent int) {
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(number[i+1:]) // outside an int, no float64 has the number
		number = number[:i]
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(number, "-"), ".")
	all := strings.TrimLeft(whole+fraction, "0")
	digits = strings.TrimRight(all, "0")
	if digits == "" {
		return "", 0
	}
	return digits, exponent - len(fraction) + len(all) - len(digits)
}

// decode decodes an item.
func (d *Driver[T]) decode(body []byte) (v T, err error) {
	if err = d.opts.Codec.Decode(body, &v); err != nil {
		err = &driver.InvalidError{Field: "item", Value: fmt.Sprintf("%d bytes", len(body)), Rule: fmt.Sprintf("must decode into a %T", v), Err: unquoted{err}}
	}
	return v, err
}

// checkValue rejects a T with a field that does not suit a property of the driver's or of Cosmos DB. It
// sends samples through the codec, so it sees what the codec does. triesKeys: whether T holds a key
// only the key itself can tell.
func (d *Driver[T]) checkValue() (triesKeys bool, err error) {
	o := &d.opts
	if _, ok := o.Codec.(kit.JSON); ok {
		if o.Codec, err = kit.JSONOf[T](); err != nil {
			return false, err
		}
	}
	own := d.own(identity{id: "id", partition: [maxLevels]string{"id", "id", "id"}}, maxVersion)
	own = append(own, o.life(driver.Life{CreatedAt: latest, ExpiresAt: latest}, 0)...) // with a ttl of -1
	own = append(own, property{ttlName, strconv.Itoa(maxTTL)})
	for _, name := range systemNames {
		own = append(own, property{name, quoted(name)})
	}
	options := map[string]string{o.CreatedAt: "Options.CreatedAt", o.ExpiresAt: "Options.ExpiresAt", o.Version: "Options.Version"}
	for _, p := range own {
		f := kit.OwnField{Name: p.name, Kind: "property", Option: options[p.name], Sole: p.name == o.Version}
		switch {
		case p.name == "_ts":
			p.value = strconv.Itoa(maxTTL)
		case p.name == "_etag":
			p.value = quoted(quoted("00000000-0000-0000-0000-000000000000")) // with quotes, as the service sends it
		case p.value == quoted("id"):
			f.Guess = func(err error) bool { return !errors.As(err, new(*json.UnmarshalTypeError)) }
		}
		unsure, err := f.Check(reflect.TypeFor[T]().String(), func(name string) (any, map[string]any, error) {
			if name == "" {
				return d.through(nil)
			}
			return d.through([]property{{name, p.value}})
		})
		if err != nil {
			return false, err
		}
		triesKeys = triesKeys || unsure
	}
	return triesKeys, nil
}

// through decodes an item of these properties, and returns the T and its properties encoded again.
func (d *Driver[T]) through(item []property) (any, map[string]any, error) {
	body := []byte{'{'}
	for i, p := range item {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, quoted(p.name)...), ':'), p.value...)
	}
	var v T
	if err := d.opts.Codec.Decode(append(body, '}'), &v); err != nil {
		return nil, nil, unquoted{err}
	}
	encoded, err := d.opts.Codec.Encode(v)
	fields, _ := gjson.ParseBytes(encoded).Value().(map[string]any)
	return v, fields, err
}
