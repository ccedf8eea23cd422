package couchbase_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// account has its encoding on the pointer, as big.Int and many decimals have.
type account struct{ balance int }

func (a *account) MarshalJSON() ([]byte, error) { return json.Marshal([]int{a.balance}) }

func (a *account) UnmarshalJSON(b []byte) error {
	var all [1]int
	err := json.Unmarshal(b, &all)
	a.balance = all[0]
	return err
}

// A value is encoded by its own methods, those of its pointer too.
func TestPointerMarshalers(t *testing.T) {
	f := open(t)
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}
	for name, code := range map[string]gocb.Transcoder{"json": nil, "legacy": gocb.NewLegacyTranscoder()} {
		o := &couchbase.Options{Transcoder: code}
		accounts := newStore(t, f, newDriver[account](t, f, o), policy, nil)
		ok(t, "Upsert", accounts.Upsert(t.Context(), name, account{17}))
		if got, err := accounts.Get(t.Context(), name); err != nil || got.balance != 17 {
			t.Errorf("%s: a balance of 17 is read as %d, %v", name, got.balance, err)
		}
		purses := newStore(t, f, newDriver[purse](t, f, o), policy, nil)
		ok(t, "Upsert", purses.Upsert(t.Context(), name, purse{*big.NewInt(17)}))
		if got, err := purses.Get(t.Context(), name); err != nil || got.Total.Int64() != 17 {
			t.Errorf("%s: a total of 17 is read as %v, %v", name, &got.Total, err)
		}
	}
}

// once is a text that is gone when it has been encoded.
type once struct{ text *string }

func (o once) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(*o.text)
	*o.text = ""
	return b, err
}

func (o *once) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.text) }

// What was encoded to see whether it is read back is what is stored.
func TestStoresWhatWasTried(t *testing.T) {
	f := open(t)
	type tried struct {
		Body once
		At   map[netip.Addr]int
	}
	for name, code := range map[string]gocb.Transcoder{"json": nil, "legacy": gocb.NewLegacyTranscoder()} {
		s := newStore(t, f, newDriver[tried](t, f, &couchbase.Options{Transcoder: code}), policy, nil)
		text := "hello"
		ok(t, "Upsert", s.Upsert(t.Context(), name, tried{once{&text}, map[netip.Addr]int{netip.IPv6Loopback(): 1}}))
		got, err := s.Get(t.Context(), name)
		ok(t, "Get", err)
		if *got.Body.text != "hello" {
			t.Errorf("%s: read as %q", name, *got.Body.text)
		}
	}
}

// A nil pointer is written as null where a document of JSON can be read, and else refused.
func TestNilPointers(t *testing.T) {
	testNilPointer[string](t)
	testNilPointer[[]byte](t)
	testNilPointer[json.RawMessage](t)
	testNilPointer[any](t)
	testNilPointer[purse](t)
}

// A T that JSON does not keep is refused, but a Transcoder of the application's own may keep it.
func TestLostByJSON(t *testing.T) {
	f := open(t)
	for name, code := range map[string]gocb.Transcoder{"json": nil, "legacy": gocb.NewLegacyTranscoder()} {
		var invalid *driver.InvalidError
		if _, err := couchbase.New[map[string]account](f.c, &couchbase.Options{Transcoder: code}); !errors.As(err, &invalid) || invalid.Field != "T" || !strings.Contains(invalid.Rule, "account by pointer") {
			t.Errorf("%s: %v; want a T that is refused", name, err)
		}
	}
	if _, err := couchbase.New[map[string]account](f.c, &couchbase.Options{Transcoder: packed{}}); err != nil {
		t.Error(err)
	}
}

// upload can be written once: it reads what it writes.
type upload struct{ io.Reader }

func (u upload) MarshalJSON() ([]byte, error) {
	b, err := io.ReadAll(u.Reader)
	return append(append([]byte{'"'}, b...), '"'), err
}

func (u *upload) UnmarshalJSON(b []byte) error {
	u.Reader = bytes.NewReader(b[1 : len(b)-1])
	return nil
}

// A value that was tried is stored as it was then, and text that is not UTF-8 only where it is stored as it is.
func TestStoresWhatIsRead(t *testing.T) {
	f := open(t)
	type beside struct {
		Body upload
		Seen map[netip.Addr]int
	}
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}
	for name, code := range map[string]gocb.Transcoder{"json": nil, "legacy": gocb.NewLegacyTranscoder()} {
		o := &couchbase.Options{Transcoder: code}
		s := newStore(t, f, newDriver[beside](t, f, o), policy, nil)
		ok(t, "Upsert", s.Upsert(t.Context(), name, beside{upload{strings.NewReader("hello")}, map[netip.Addr]int{netip.IPv6Loopback(): 1}}))
		got, err := s.Get(t.Context(), name)
		ok(t, "Get", err)
		if b, _ := io.ReadAll(got.Body); string(b) != "hello" {
			t.Errorf("%s: a body is read as %q", name, b)
		}
		texts := newStore(t, f, newDriver[string](t, f, o), policy, nil)
		if err := texts.Upsert(t.Context(), name, "\xe9"+strings.Repeat("[", 10_001)); code == nil != errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: text that is not UTF-8: %v", name, err)
		}
		names := newStore(t, f, newDriver[profile](t, f, o), policy, nil)
		if err := names.Upsert(t.Context(), name, profile{Name: "\xe9"}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: a field that is not UTF-8: %v", name, err)
		}
	}
}

func testNilPointer[E any](t *testing.T) {
	f := open(t)
	for name, code := range map[string]gocb.Transcoder{
		"json": nil, "legacy": gocb.NewLegacyTranscoder(),
		"raw JSON": gocb.NewRawJSONTranscoder(), "raw string": gocb.NewRawStringTranscoder(), "raw binary": gocb.NewRawBinaryTranscoder(),
	} {
		d := newDriver[*E](t, f, &couchbase.Options{Transcoder: code})
		s := newStore(t, f, d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
		err := s.Upsert(t.Context(), name, nil)
		switch name {
		case "json", "legacy":
			got, bad := s.Get(t.Context(), name)
			if err != nil || bad != nil || got != nil && any(*got) != nil {
				t.Errorf("%s: a nil %T is written with %v, and read as %v, %v", name, got, err, got, bad)
			}
		default:
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: a nil %T is written with %v; want an invalid value", name, (*E)(nil), err)
			}
		}
	}
}
