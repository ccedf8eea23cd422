package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// field is a field of a Policy in its text and JSON forms: a duration, or a
// flag where set is not nil.
type field struct {
	name, text, json string
	d                *time.Duration
	set              *bool
}

func (p *Policy) fields() []field {
	return []field{
		{name: "IdleGrace", text: "idle", json: "idle_grace", d: &p.IdleGrace},
		{name: "MaxLifetime", text: "max", json: "max_lifetime", d: &p.MaxLifetime},
		{name: "Slack", text: "slack", json: "slack", d: &p.Slack},
		{name: "MaxSlack", text: "max slack", json: "max_slack", d: &p.MaxSlack},
		{name: "Promote", text: "promote", json: "promote", set: &p.Promote},
	}
}

// written returns what is part of a policy's text: the limits always, the rest where it is
// not zero.
func (p *Policy) written() []field {
	return slices.DeleteFunc(p.fields(), func(f field) bool {
		if f.set != nil {
			return !*f.set
		}
		return *f.d == 0 && f.name != "IdleGrace" && f.name != "MaxLifetime"
	})
}

func (f field) format() string {
	switch {
	case f.set != nil:
		return strconv.FormatBool(*f.set)
	case f.name == "MaxLifetime" && *f.d == NoCap:
		return "none"
	}
	return FormatDuration(*f.d)
}

func (f field) parse(s string) (err error) {
	if f.name == "MaxLifetime" && s == "none" {
		*f.d = NoCap
	} else if *f.d, err = ParseDuration(s); err != nil {
		return f.invalid(strconv.Quote(s))
	}
	return nil
}

func (f field) read(value json.RawMessage) error {
	var s string
	switch {
	case f.set != nil && json.Unmarshal(value, f.set) == nil:
		return nil
	case f.set == nil && json.Unmarshal(value, &s) == nil:
		return f.parse(s)
	}
	return f.invalid(string(value))
}

func (f field) invalid(value string) error {
	rule := `must be a duration such as "30d", "12h" or "1h30m"`
	if f.set != nil {
		rule = "must be true or false"
	}
	return &driver.InvalidError{Field: "Policy." + f.name, Value: value, Rule: rule}
}

// Parse reads a policy from its text form: its fields in any order, parted by commas.
//
//	idle 30d, max 90d, slack 3d
//	idle 30m, max 12h, slack 3m, max slack 10m
//	idle 30d, max 365d, promote
//	idle 30d, max none
//
// A duration is what [time.ParseDuration] reads, after whole days of 24 hours if it
// has some: "720h", "30d", "1d12h". "max none" is [NoCap]. Text that does not read,
// and a policy that does not validate, is an *[driver.InvalidError].
func Parse(text string) (Policy, error) {
	var p Policy
	fields := p.fields()
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		i := slices.IndexFunc(fields, func(f field) bool {
			if f.set != nil {
				return part == f.text
			}
			return part[:max(0, strings.LastIndexByte(part, ' '))] == f.text
		})
		if i < 0 {
			return Policy{}, &driver.InvalidError{
				Field: "policy", Value: strconv.Quote(part),
				Rule: "must be idle, max, slack or max slack with a duration, or promote, each at most once",
			}
		}
		f := fields[i]
		fields = slices.Delete(fields, i, i+1)
		if f.set != nil {
			*f.set = true
		} else if err := f.parse(part[len(f.text)+1:]); err != nil {
			return Policy{}, err
		}
	}
	return p, p.Validate()
}

// String returns p in the form that [Parse] reads.
func (p Policy) String() string {
	var parts []string
	for _, f := range p.written() {
		if f.set == nil {
			f.text += " " + f.format()
		}
		parts = append(parts, f.text)
	}
	return strings.Join(parts, ", ")
}

// MarshalText implements encoding.TextMarshaler by String.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler by [Parse]: a policy can be a flag
// (flag.TextVar). With an error p stays as it was.
func (p *Policy) UnmarshalText(text []byte) error {
	read, err := Parse(string(text))
	if err == nil {
		*p = read
	}
	return err
}

// LogValue implements slog.LogValuer by String.
func (p Policy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON implements json.Marshaler: an object with durations as in the text
// form.
//
//	{"idle_grace": "30d", "max_lifetime": "90d", "slack": "3d", "max_slack": "9d", "promote": false}
func (p Policy) MarshalJSON() ([]byte, error) {
	var b []byte
	for _, f := range p.written() {
		value := f.format()
		if f.set == nil {
			value = strconv.Quote(value)
		}
		b = fmt.Appendf(b, ",%q:%s", f.json, value)
	}
	b[0] = '{'
	return append(b, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler for what MarshalJSON writes. What may be
// zero may be left out. A field that is unknown, or there twice, and a policy that
// does not validate, is an *[driver.InvalidError]; p then stays as it was.
func (p *Policy) UnmarshalJSON(b []byte) error {
	if string(b) == "null" { // it changes nothing, as everywhere in encoding/json
		return nil
	}
	var read Policy
	fields := read.fields()
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return &driver.InvalidError{Field: "policy", Value: string(b), Rule: `must be an object such as {"idle_grace": "30d", "max_lifetime": "90d"}`, Err: err}
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err = cmp.Or(err, dec.Decode(&value)); err != nil {
			return err
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.json == name })
		if i < 0 {
			return &driver.InvalidError{
				Field: "policy", Value: fmt.Sprintf("%q", name),
				Rule: "must have no fields but idle_grace, max_lifetime, slack, max_slack and promote, each at most once",
			}
		}
		if err := fields[i].read(value); err != nil {
			return err
		}
		fields = slices.Delete(fields, i, i+1)
	}
	err := read.Validate()
	if err == nil {
		*p = read
	}
	return err
}
