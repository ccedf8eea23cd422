package couchbase

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// kept is a transcoder of another package that hands out the bytes of its values.
type kept struct{ gocb.Transcoder }

func (kept) Encode(v any) ([]byte, uint32, error) { return v.(struct{ B []byte }).B, jsonFlags, nil }

// What is sent is not the caller's to change: gocbcore may read it when the call has ended.
func TestEncodedIsNotShared(t *testing.T) {
	const text = `"text"`
	b := []byte(text)
	var binary any = b
	var rawJSON any = json.RawMessage(b)
	raw := json.RawMessage(b)
	for transcoder, values := range map[gocb.Transcoder][]any{
		gocb.NewJSONTranscoder():      {raw, &raw, &rawJSON},
		gocb.NewLegacyTranscoder():    {b, &b, &binary, raw, &raw, &rawJSON},
		gocb.NewRawJSONTranscoder():   {b, &b, &binary, raw, &raw, &rawJSON},
		gocb.NewRawBinaryTranscoder(): {b, &b, &binary},
		kept{}:                        {struct{ B []byte }{b}},
	} {
		for _, v := range values {
			doc, err := newCodec(transcoder).encode(v)
			b[1] = 'x'
			if err != nil || string(doc.body) != text {
				t.Errorf("%T, a %T: %s, %v; want %s", transcoder, v, doc.body, err, text)
			}
			copy(b, text)
		}
	}
}

// Raw JSON is refused where encoding/json would replace its text as it reads, and kept by a transcoder that hands out the bytes.
func TestRawJSONIsText(t *testing.T) {
	raw := json.RawMessage("\"\xff\"")
	var held any = raw
	for transcoder, kept := range map[gocb.Transcoder]bool{
		gocb.NewJSONTranscoder(): false, gocb.NewLegacyTranscoder(): false, gocb.NewRawJSONTranscoder(): true,
	} {
		for _, v := range []any{raw, &raw, &held} {
			doc, err := newCodec(transcoder).encode(v)
			if kept != (err == nil) || !kept && !errors.Is(err, driver.ErrInvalid) || kept && string(doc.body) != string(raw) {
				t.Errorf("%T, a %T: %q, %v; want it kept: %v", transcoder, v, doc.body, err, kept)
			}
		}
	}
}
