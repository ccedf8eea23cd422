package couchbase_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// written inserts v and upserts it. What no read decodes must be refused, and not be stored.
func written[T any](t *testing.T, f *fixture, code gocb.Transcoder, v T, decodes bool) {
	t.Helper()
	what := fmt.Sprintf("%T in a %T by %T", v, new(T), code)
	d := newDriver[T](t, f, &couchbase.Options{Transcoder: code})
	s := newStore(t, f, d, policy, nil)
	ok(t, "Delete", s.Delete(t.Context(), "k"))
	now := driver.Floor(f.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	_, err := d.Insert(t.Context(), "k", v, life, now)
	_, getErr := s.Get(t.Context(), "k")
	upErr := s.Upsert(t.Context(), "k", v)
	if decodes {
		if err := errors.Join(err, getErr, upErr); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if !errors.Is(err, driver.ErrInvalid) || !errors.Is(upErr, driver.ErrInvalid) || !errors.Is(getErr, slidingttl.ErrNotFound) {
		t.Errorf("%s: Insert %v, Get %v, Upsert %v", what, err, getErr, upErr)
	}
}

// Some of gocb's transcoders store raw values unread, and take pointers that they do not decode into.
func TestUndecodable(t *testing.T) {
	f := open(t)
	legacy, binary, text, raw := gocb.NewLegacyTranscoder(), gocb.NewRawBinaryTranscoder(), gocb.NewRawStringTranscoder(), gocb.NewRawJSONTranscoder()
	half, whole, bytes, word := json.RawMessage(`{"a":`), json.RawMessage(`{"a":1}`), []byte("bytes"), "word"
	var boxed any = bytes
	written(t, f, legacy, half, false)
	written(t, f, legacy, &half, false)
	written[any](t, f, legacy, half, false)
	written(t, f, legacy, &bytes, false)
	written(t, f, legacy, &word, false)
	written(t, f, legacy, &boxed, false)
	written(t, f, binary, &bytes, false)
	written(t, f, binary, &boxed, false)
	written(t, f, text, &word, false)
	written(t, f, raw, whole, false)
	written(t, f, raw, &bytes, false)
	written[any](t, f, raw, bytes, false)

	written(t, f, legacy, whole, true)
	written(t, f, legacy, &whole, true)
	written[any](t, f, legacy, whole, true)
	written[any](t, f, legacy, &bytes, true)
	written[any](t, f, legacy, word, true)
	written(t, f, legacy, bytes, true)
	written(t, f, binary, bytes, true)
	written[any](t, f, binary, &bytes, true)
	written(t, f, text, word, true)
	written(t, f, raw, bytes, true)
	written(t, f, raw, word, true)
}

// masked is a Transcoder that masks (a stand-in for a cipher) and, as cipher.AEAD.Open(b[:0], ...) does, unmasks in place.
type masked struct{}

func (masked) Encode(v any) ([]byte, uint32, error) {
	b, err := json.Marshal(v)
	for i := range b {
		b[i] ^= 0x5a
	}
	return b, 0x03000000, err
}

func (masked) Decode(b []byte, _ uint32, into any) error {
	for i := range b {
		b[i] ^= 0x5a
	}
	return json.Unmarshal(b, into)
}

// What a Transcoder decodes to try it is not what is sent.
func TestDecodeInPlace(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[any](t, f, &couchbase.Options{Transcoder: masked{}}), policy, nil)
	ok(t, "Upsert", s.Upsert(t.Context(), "k", "a secret text"))
	if got, err := s.Get(t.Context(), "k"); err != nil || got != "a secret text" {
		t.Errorf("any: read as %v, %v", got, err)
	}
	raw := newStore(t, f, newDriver[json.RawMessage](t, f, &couchbase.Options{Transcoder: masked{}}), policy, nil)
	ok(t, "Upsert", raw.Upsert(t.Context(), "r", json.RawMessage(`{"a":1}`)))
	if got, err := raw.Get(t.Context(), "r"); err != nil || !bytes.Equal(got, []byte(`{"a":1}`)) {
		t.Errorf("raw: read as %q, %v", got, err)
	}
}
