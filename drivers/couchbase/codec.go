package couchbase

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// codec turns values into documents and back.
type codec struct {
	gocb.Transcoder
	flags bool // the transcoder looks at a document's flags
	json  kit.JSON
}

// document is a value as it is stored.
type document struct {
	body  []byte
	flags uint32
}

func newCodec(t gocb.Transcoder) codec {
	if _, plain := t.(*gocb.JSONTranscoder); plain || t == nil {
		return codec{Transcoder: gocb.NewJSONTranscoder()}
	}
	return codec{Transcoder: t, flags: true}
}

func (c codec) encode(v any) (document, error) {
	held, shared, null, err := storedRaw(v)
	if err != nil {
		return document{}, err
	}
	decoded := false // by encoding/json, where the flags say JSON
	switch c.Transcoder.(type) {
	case *gocb.JSONTranscoder, *gocb.LegacyTranscoder:
		decoded = true
		if null {
			return document{[]byte("null"), jsonFlags}, nil
		}
		if !shared && !(c.flags && isText(held)) {
			body, err := c.json.Encode(v)
			if err != nil {
				return document{}, kit.NotEncoded(v, c.Transcoder, kit.Unquoted{Err: err})
			}
			return document{body, jsonFlags}, nil
		}
	case *gocb.RawJSONTranscoder, *gocb.RawStringTranscoder, *gocb.RawBinaryTranscoder:
		if null {
			return document{}, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T of nil", v), Rule: fmt.Sprintf("must be one that %T encodes", c.Transcoder)}
		}
	default:
		shared = true // for all that is known
	}
	body, flags, err := c.Encode(v)
	if err != nil {
		return document{}, kit.NotEncoded(v, c.Transcoder, kit.Unquoted{Err: err})
	}
	if len(body) == 0 {
		return document{}, &driver.InvalidError{Field: "value", Value: "0 bytes", Rule: "must encode to at least one byte"}
	}
	if decoded && flags == jsonFlags && !(json.Valid(body) && utf8.Valid(body)) {
		return document{}, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("%d bytes", len(body)), Rule: "must be JSON, and UTF-8"}
	}
	if shared {
		body = bytes.Clone(body) // gocbcore may read it when the write is not waited for any more
	}
	return document{body, flags}, nil
}

// mostPointers is how many pointers to any the driver follows: gocb's transcoders follow them for
// ever.
const mostPointers = 1000

// storedRaw returns what v or pointers to any hold. shared: gocb's transcoders may return its own bytes. null: it is a nil
// pointer, over which some of them would panic.
func storedRaw(v any) (held any, shared, null bool, err error) {
	for range mostPointers {
		switch p := v.(type) {
		case json.RawMessage, []byte:
			return v, true, false, nil
		case *json.RawMessage:
			return v, true, p == nil, nil
		case *[]byte:
			return v, true, p == nil, nil
		case *string:
			return v, false, p == nil, nil
		case *any:
			if p == nil {
				return v, false, true, nil
			}
			v = *p
		default:
			return v, false, false, nil
		}
	}
	return nil, false, false, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must not be a pointer to itself"}
}

// isText reports whether v may be stored as a text instead of JSON.
func isText(v any) bool {
	switch v.(type) {
	case string, *string:
		return true
	}
	return false
}

func (c codec) decode(doc document, into any) error {
	var err error
	if len(doc.body) == 0 {
		return &driver.InvalidError{Field: "stored value", Value: "0 bytes", Rule: "must be at least one byte"}
	}
	if c.flags {
		err = c.Decode(doc.body, doc.flags, into)
	} else {
		err = json.Unmarshal(doc.body, into) // as gocb's transcoder does, at less cost
	}
	if err != nil {
		return &driver.InvalidError{Field: "stored value", Value: fmt.Sprintf("%d bytes", len(doc.body)), Rule: fmt.Sprintf("must decode as %T", into), Err: kit.Unquoted{Err: err}}
	}
	return nil
}

var jsonFlags = gocbcore.EncodeCommonFlags(gocbcore.JSONType, gocbcore.NoCompression)

// mistaken reports whether readers take a document of wanted flags for one of another type if it has
// those. gocb and the other SDKs read flags of zero as JSON, but a Transcoder may tell apart all others.
func (c codec) mistaken(flags, wanted uint32) bool {
	if c.flags {
		return flags != wanted && (flags != 0 || wanted != jsonFlags)
	}
	kind, compression := gocbcore.DecodeCommonFlags(flags)
	return kind != gocbcore.JSONType || compression != gocbcore.NoCompression
}

// flagsXattr returns the JSON of the xattr that has doc's flags. A sub-document write keeps the
// document's, which may be those of another type of value. The checksum ties the xattr to the body,
// because other programs' writes keep xattrs.
func (doc document) flagsXattr() []byte {
	return fmt.Appendf(nil, "[%d,%d]", doc.flags, checksum(doc.body))
}

// trueFlags returns the flags that doc was encoded with, of those in the document and in its xattr.
func (doc document) trueFlags(xattr []byte) uint32 {
	var tied [2]uint32
	var plain uint32 // by versions that wrote an xattr without a checksum, for new documents only
	switch {
	case len(xattr) == 0:
	case json.Unmarshal(xattr, &tied) == nil && tied[1] == checksum(doc.body):
		return tied[0]
	case doc.flags == 0 && json.Unmarshal(xattr, &plain) == nil:
		return plain
	}
	return doc.flags
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }
