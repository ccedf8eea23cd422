package couchbase_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/internal/anyvalue"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// anyValues is how many cases of any value over any record are judged.
var anyValues = 1000

// packed compresses long values, and tells by the flags which it has compressed.
type packed struct{}

var (
	packedFlags = gocbcore.EncodeCommonFlags(gocbcore.BinaryType, gocbcore.NoCompression)
	textFlags   = gocbcore.EncodeCommonFlags(gocbcore.StringType, gocbcore.NoCompression)
)

func (packed) Encode(v any) ([]byte, uint32, error) {
	b, err := json.Marshal(anyvalue.Addressed(v))
	if err != nil || len(b) < 200 {
		return b, jsonFlags, err
	}
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestSpeed)
	_, err = w.Write(b)
	return out.Bytes(), packedFlags, errors.Join(err, w.Close())
}

func (packed) Decode(b []byte, flags uint32, into any) (err error) {
	if flags == packedFlags {
		if b, err = io.ReadAll(flate.NewReader(bytes.NewReader(b))); err != nil {
			return err
		}
	}
	return json.Unmarshal(b, into)
}

// anyTarget is a layout with values of a type.
func anyTarget[T any](t *testing.T, f *fixture, name string, o couchbase.Options, box func(any) T, tops ...reflect.Type) anyvalue.Target[T] {
	path, xattr := createdPath(o)
	shape := anyvalue.Shape{Tag: "json", Flags: []string{"omitempty", "omitzero", "string"}, Leaves: anyvalue.JSON, Tops: tops}
	if !xattr {
		shape.Own = []string{path}
	}
	code := o.Transcoder
	if code == nil {
		code = gocb.NewJSONTranscoder()
	}
	_, legacy := code.(*gocb.LegacyTranscoder)
	o.Timeout = time.Minute
	return anyvalue.Target[T]{
		Name: name, Shape: shape, Box: box, Now: f.Now, Advance: f.Advance,
		Replaces: o.Transcoder != nil && !legacy,
		Open:     func() (driver.Driver[T], error) { return couchbase.New[T](f.c, &o) },
		Image: func(v T) (image T, err error) {
			switch p := any(v).(type) { // gocb's transcoder panics
			case *json.RawMessage:
				if p == nil {
					return image, nil
				}
			case *any:
				if p == nil {
					return image, nil
				}
			}
			body, flags, err := code.Encode(given(v))
			if err != nil || o.Transcoder == nil && !json.Valid(body) {
				return v, err // what is no JSON must be refused
			}
			var fields map[string]json.RawMessage
			if !xattr && json.Unmarshal(body, &fields) == nil && fields != nil {
				delete(fields, path)
				if body, err = json.Marshal(fields); err != nil {
					return image, err
				}
			}
			err = code.Decode(body, flags, &image)
			return image, err
		},
		Theirs: func(ctx context.Context, key string) (v T, err error) {
			res, err := f.c.Get(key, &gocb.GetOptions{Transcoder: code, Context: ctx})
			if err == nil {
				err = res.Content(&v)
			}
			var raw json.RawMessage
			if err == nil && !xattr && res.Content(&raw) == nil && fieldsNamed(path, raw) != 1 {
				err = fmt.Errorf("the body has another number of fields %q than one: %s", path, raw)
			}
			return v, err
		},
		Foreign: func(ctx context.Context, key string, r *rand.Rand) (string, error) {
			return plantAny(ctx, f.c, o, key, r)
		},
	}
}

// given returns what gocb's transcoders are given for v. They have cases of their own for bytes and texts.
func given(v any) any {
	switch v.(type) {
	case nil, []byte, string, json.RawMessage, *json.RawMessage, *any:
		return v
	}
	return anyvalue.Addressed(v)
}

// purse has a field whose encoding is that of its pointer.
type purse struct{ Total big.Int }

// fieldsNamed counts the top-level fields of that name, however it is written.
func fieldsNamed(name string, object []byte) (n int) {
	dec := json.NewDecoder(bytes.NewReader(object))
	for _, err := dec.Token(); err == nil && dec.More(); {
		var field json.Token
		var value json.RawMessage
		if field, err = dec.Token(); field == name {
			n++
		}
		err = errors.Join(err, dec.Decode(&value))
	}
	return n
}

// plantAny writes a document of any type, with any xattr.
func plantAny(ctx context.Context, c *gocb.Collection, o couchbase.Options, key string, r *rand.Rand) (string, error) {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	path, xattr := createdPath(o)
	anyJSON := func() string {
		return one(`null`, `true`, `17`, `-1.5e300`, `1771234567890`, `"text"`, `"2026-05-17T09:00:00Z"`, `""`, `[]`, `[1,2,3]`, `{}`, `{"a":{}}`)
	}
	body := one(`{}`, `{"name":"theirs"}`, `{"deep":`+strings.Repeat(`[`, 40)+strings.Repeat(`]`, 40)+`}`, anyJSON(), "\x00\xff", "", " \n", `{"a":`, strings.Repeat(`[`, 40)+strings.Repeat(`]`, 40))
	if !xattr && r.IntN(2) == 0 {
		escaped := fmt.Sprintf(`\u%04x%s`, path[0], path[1:])
		body = fmt.Sprintf(`{"%s":%s,"%s":%s,"name":"theirs"}`, one(path, path, escaped), anyJSON(), one("other", path, escaped), anyJSON())
	}
	flags := []uint32{0, jsonFlags, packedFlags, textFlags, 0xffffffff}[r.IntN(5)]
	expiry := []uint32{0, uint32(start.AddDate(20, 0, 0).Unix())}[r.IntN(2)]
	what := fmt.Sprintf("%.60q with flags %#x, expiry %d", body, flags, expiry)
	if err := plant(ctx, c, key, []byte(body), flags, expiry); err != nil || r.IntN(3) == 0 {
		return what, err
	}
	at, value := path, anyJSON()
	if !xattr {
		at = "slidingttl.touched_at"
	}
	switch root, _, _ := strings.Cut(at, "."); r.IntN(4) {
	case 0:
		at = root
	case 1:
		at = root + ".flags"
	case 2:
		if below := at[:strings.LastIndex(at, ".")]; below != root {
			at = below
		}
	}
	what += fmt.Sprintf(", xattr %s of %s", at, value)
	_, err := c.MutateIn(key, []gocb.MutateInSpec{
		gocb.UpsertSpec(at, json.RawMessage(value), &gocb.UpsertSpecOptions{IsXattr: true, CreatePath: true}),
	}, &gocb.MutateInOptions{PreserveExpiry: true, Context: ctx})
	return what, err
}

// What is written is read back, or refused by name: any value, over any document.
func TestAnyValue(t *testing.T) {
	f := open(t)
	box := func(v any) anyvalue.Any { return anyvalue.Any{V: v} }
	anyvalue.Run(t, anyValues,
		anyTarget(t, f, "xattr", couchbase.Options{}, box),
		anyTarget(t, f, "path", couchbase.Options{CreatedPath: "app.ttl.born", Retain: time.Hour}, box),
		anyTarget(t, f, "body", couchbase.Options{CreatedIn: couchbase.Body}, box),
		anyTarget(t, f, "field", couchbase.Options{CreatedIn: couchbase.Body, CreatedPath: "bornAt", Retain: time.Hour}, box),
		anyTarget(t, f, "escaped", couchbase.Options{CreatedIn: couchbase.Body, CreatedPath: "<&>"}, box),
		anyTarget(t, f, "prefixed", couchbase.Options{Transcoder: prefixed{}}, box),
		anyTarget(t, f, "packed", couchbase.Options{Transcoder: packed{}}, box),
		anyTarget(t, f, "packed, retained", couchbase.Options{Transcoder: packed{}, Retain: time.Hour}, box),
	)
}

// The same with transcoders that look at the type of a value.
func TestAnyType(t *testing.T) {
	f := open(t)
	as := func(v any) any { return v }
	spoiled := func(v any) any { // some raw JSON is none
		if raw, ok := v.(json.RawMessage); ok && len(raw)%2 == 0 {
			return raw[min(1, len(raw)):]
		}
		return v
	}
	held := func(v any) *any {
		if p, ok := v.(*any); ok {
			return p
		}
		return &v
	}
	tops := []reflect.Type{reflect.TypeFor[map[string]any](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[*any](), reflect.TypeFor[purse](), reflect.TypeFor[map[string]big.Int]()}
	legacy := gocb.NewLegacyTranscoder()
	anyvalue.Run(t, anyValues/4,
		anyTarget(t, f, "legacy", couchbase.Options{Transcoder: legacy}, as, reflect.TypeFor[map[string]any](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[]string](), reflect.TypeFor[purse]()),
		anyTarget(t, f, "raw", couchbase.Options{}, spoiled, reflect.TypeFor[map[string]any](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[*json.RawMessage](), reflect.TypeFor[*any](), reflect.TypeFor[purse]()),
		anyTarget(t, f, "raw in body", couchbase.Options{CreatedIn: couchbase.Body}, spoiled, reflect.TypeFor[map[string]any](), reflect.TypeFor[json.RawMessage]()),
		anyTarget(t, f, "legacy, retained", couchbase.Options{Transcoder: legacy, Retain: time.Hour}, as, reflect.TypeFor[map[string]any](), reflect.TypeFor[string](), reflect.TypeFor[[]byte]()),
	)
	anyvalue.Run(t, anyValues/4,
		anyTarget(t, f, "pointers", couchbase.Options{}, held, tops...),
		anyTarget(t, f, "pointers in body", couchbase.Options{CreatedIn: couchbase.Body}, held, tops...),
		anyTarget(t, f, "pointers, legacy", couchbase.Options{Transcoder: legacy}, held, tops...),
	)
}
