package couchbase

import (
	"encoding/json"
	"fmt"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// codec turns values into documents and back.
type codec struct {
	gocb.Transcoder
	flags bool // the transcoder looks at a document's flags
}

// document is a value as it is stored.
type document struct {
	body  []byte
	flags uint32
}

func newCodec(t gocb.Transcoder) codec {
	if t == nil {
		return codec{Transcoder: gocb.NewJSONTranscoder()}
	}
	return codec{t, true}
}

func (c codec) encode(v any) (document, error) {
	body, flags, err := c.Encode(v)
	if err != nil {
		return document{}, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: fmt.Sprintf("must be one that %T encodes", c.Transcoder), Err: err}
	}
	if len(body) == 0 {
		return document{}, &driver.InvalidError{Field: "value", Value: "0 bytes", Rule: "must encode to at least one byte"}
	}
	return document{body, flags}, nil
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
		return &driver.InvalidError{Field: "stored value", Value: fmt.Sprintf("%d bytes", len(doc.body)), Rule: fmt.Sprintf("must decode as %T", into), Err: err}
	}
	return nil
}

// typed reports whether readers need the document's flags to know its type. JSON needs none: gocb
// and the other SDKs read flags of zero as JSON, and a sub-document write creates documents with
// flags of zero.
func (doc document) typed() bool {
	t, _ := gocbcore.DecodeCommonFlags(doc.flags)
	return t != gocbcore.JSONType
}
