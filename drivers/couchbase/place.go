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
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05", // no offset: UTC
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05Z0700",
	"2006-01-02 15:04:05Z07",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04Z0700",
	"2006-01-02T15:04Z07",
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
				if at := driver.Floor(t); at >= 0 {
					return at, nil
				}
				return 0, p.invalid(raw, ruleEpoch)
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
		rule = ruleDeep
		if inBody {
			err = fmt.Errorf("%w: %w", errTooDeep, err)
		}
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

var (
	errNotObject = errors.New("body is not a JSON object")
	errTooDeep   = errors.New("body has too many levels")
)

// mostLevels is how deep objects and arrays may be nested up to what a path finds, or in all if it finds
// nothing. Source: subjson, match.cc, PARSER_DEPTH, which counts the value too.
const mostLevels = 32

const ruleDeep = "must come before any value of more than 32 levels, since Couchbase finds nothing behind it"

// tooDeep reports whether body, or the beginning of one, has too many levels.
func tooDeep(body []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case b == '"':
			inString = !inString
		case inString && b == '\\':
			i++
		case inString:
		case b == '{' || b == '[':
			if depth++; depth > mostLevels {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

// fields calls f for each top-level field of body, a JSON object: with its name, and where in body it and
// its value begin, and it ends.
func fields(body []byte, f func(name string, start, value, end int)) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errNotObject
	}
	for dec.More() {
		rest := body[dec.InputOffset():]
		start := len(body) - len(bytes.TrimLeft(rest, " \t\r\n,"))
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		end := int(dec.InputOffset())
		f(name.(string), start, end-len(value), end)
	}
	_, err := dec.Token()
	return err
}

// within reads created_at from a document's body. Like the server's paths, by which lookups without the
// body go, it finds the first of several fields of that name, and none whose name has escapes. Where
// there is none, a touch must be able to set one.
func (p place) within(body []byte) (driver.Instant, error) {
	var created []byte
	until := len(body) // what a path goes through
	plain := []byte(`"` + p.path + `"`)
	err := fields(body, func(_ string, start, value, end int) {
		if created == nil && bytes.HasPrefix(body[start:], plain) {
			created, until = body[value:end], end
		}
	})
	if err != nil {
		value := fmt.Sprintf("%d bytes", len(body))
		if json.Valid(body) {
			value = jsonType(bytes.TrimSpace(body))
		}
		return 0, notObject(value, err)
	}
	at, err := p.parse(created)
	if at == 0 && err == nil && tooDeep(body[:until]) {
		err = &driver.InvalidError{Field: p.field(), Value: "out of reach", Rule: ruleDeep, Err: errTooDeep}
	}
	return at, err
}

// put returns a copy of body with created_at set to at, as its first field: behind a value of more than
// 32 levels Couchbase would not find it. Fields whose name is the same, however written, are left out.
func (p place) put(body []byte, at driver.Instant) ([]byte, error) {
	out := make([]byte, 0, len(body)+len(p.path)+32)
	out = append(out, '{', '"')
	out = append(out, p.path...)
	out = append(out, '"', ':')
	out = append(out, p.format(at)...)
	err := fields(body, func(name string, start, _, end int) {
		if name != p.path {
			out = append(append(out, ','), body[start:end]...)
		}
	})
	if err != nil {
		return nil, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("%d bytes", len(body)), Rule: "must encode as a JSON object with CreatedIn: Body", Err: err}
	}
	return append(out, '}'), nil
}
