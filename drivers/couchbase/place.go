package couchbase

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// place is where and in which form created_at is stored.
type place struct {
	body bool
	path string
}

// set returns the operation that sets created_at only.
func (p place) set(at driver.Instant) gocbcore.SubDocOp {
	if p.body {
		return gocbcore.SubDocOp{Op: memd.SubDocOpDictSet, Path: p.path, Value: p.format(at)}
	}
	return setXattr(p.path, p.format(at))
}

// unset returns the operations that remove the stamp and created_at.
func (p place) unset() []gocbcore.SubDocOp {
	ops := []gocbcore.SubDocOp{{Op: memd.SubDocOpDelete, Flags: memd.SubdocFlagXattrPath, Path: p.stampedPath()}}
	if p.body {
		ops = append(ops, gocbcore.SubDocOp{Op: memd.SubDocOpDelete, Path: p.path})
	}
	return ops
}

// beside is the path of an xattr of that name in the same xattr as created_at.
func (p place) beside(name string) string {
	root, _, _ := strings.Cut(p.path, ".")
	return root + "." + name
}

func setXattr(path string, value []byte) gocbcore.SubDocOp {
	return gocbcore.SubDocOp{
		Op: memd.SubDocOpDictSet, Flags: memd.SubdocFlagXattrPath | memd.SubdocFlagMkDirP,
		Path: path, Value: value,
	}
}

func (p place) format(at driver.Instant) []byte {
	if p.body {
		return []byte(at.Time().Format(`"2006-01-02T15:04:05.000Z"`))
	}
	return strconv.AppendInt(nil, int64(at), 10)
}

// layouts are the forms of ISO 8601 that common libraries write. All accept fractions of any
// length.
var layouts = []string{
	time.RFC3339,
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05", // no offset: UTC
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04Z07:00",
}

// parse reads a created_at in the body from its JSON. Null means that there is none.
func (p place) parse(raw []byte) (driver.Instant, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		for _, layout := range layouts {
			if t, err := time.Parse(layout, s); err == nil {
				return driver.Floor(t), nil
			}
		}
	}
	return 0, p.invalid(raw, "must be an ISO 8601 date and time, or null")
}

// field names the place.
func (p place) field() string {
	if p.body {
		return "field " + p.path
	}
	return "xattr " + p.path
}

// outOfReach makes a server's refusal of a path, in a document of another program, an InvalidError.
func (p place) outOfReach(err error, inBody bool) error {
	mismatch := errors.Is(err, gocb.ErrPathMismatch)
	rule := "must be a field of an object"
	switch {
	case inBody && (mismatch || errors.Is(err, gocb.ErrDocumentNotJSON) || errors.Is(err, gocb.ErrValueNotJSON)):
		return notObject("of another type", fmt.Errorf("%w: %w", errNotObject, err))
	case errors.Is(err, gocb.ErrPathTooDeep):
		rule = "must be in a document of at most 32 levels, since Couchbase finds no fields in a deeper one"
	case !mismatch:
		return err
	}
	at := "xattr " + p.stampedPath()
	if inBody {
		at = p.field()
	}
	return &driver.InvalidError{Field: at, Value: "out of reach", Rule: rule, Err: err}
}

// notObject is the error of a body that can have no created_at.
func notObject(value string, err error) error {
	return &driver.InvalidError{Field: "stored value", Value: value, Rule: "must be a JSON object with CreatedIn: Body", Err: err}
}

func (p place) invalid(raw []byte, rule string) error {
	return &driver.InvalidError{Field: p.field(), Value: jsonType(raw), Rule: rule}
}

// jsonType names the type of a JSON value, for errors, which must not quote what
// may be secret.
func jsonType(raw []byte) string {
	switch raw[0] {
	case '"':
		return fmt.Sprintf("a string of %d bytes", len(raw)-2)
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

var errNotObject = errors.New("body is not a JSON object")

// find returns where the value of a top-level field lies in body, a JSON object, and where the
// field would be inserted if it is missing. Like the server's paths, by which lookups without the body
// go, it finds the first of several fields of that name, and none whose name has escapes.
func find(body []byte, field string) (start, end int, ok bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return 0, 0, false, errNotObject
	}
	start = int(dec.InputOffset())
	end = start
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return 0, 0, false, err
		}
		plain := name == field && bytes.HasSuffix(body[:dec.InputOffset()], []byte(`"`+field+`"`))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, 0, false, err
		}
		if plain && !ok {
			end = int(dec.InputOffset())
			start, ok = end-len(value), true
		}
	}
	if _, err := dec.Token(); err != nil {
		return 0, 0, false, err
	}
	return start, end, ok, nil
}

// within reads created_at from a document's body.
func (p place) within(body []byte) (driver.Instant, error) {
	start, end, ok, err := find(body, p.path)
	switch {
	case err != nil:
		value := fmt.Sprintf("%d bytes", len(body))
		if json.Valid(body) {
			value = jsonType(bytes.TrimSpace(body))
		}
		return 0, notObject(value, err)
	case !ok:
		return 0, nil
	}
	return p.parse(body[start:end])
}

// put returns a copy of body with created_at set to at.
func (p place) put(body []byte, at driver.Instant) ([]byte, error) {
	start, end, ok, err := find(body, p.path)
	if err != nil {
		return nil, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("%d bytes", len(body)), Rule: "must encode as a JSON object with CreatedIn: Body", Err: err}
	}
	out := make([]byte, 0, len(body)+len(p.path)+32)
	out = append(out, body[:start]...)
	if !ok {
		out = append(out, '"')
		out = append(out, p.path...)
		out = append(out, '"', ':')
	}
	out = append(out, p.format(at)...)
	if !ok && bytes.TrimLeft(body[end:], " \t\r\n")[0] != '}' {
		out = append(out, ',')
	}
	return append(out, body[end:]...), nil
}
