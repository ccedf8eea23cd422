package session_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// create makes a manager of T over a driver and options of its own.
func create[T any](t *testing.T, o session.Options) error {
	t.Helper()
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	m, err := session.New[T](d, &o)
	if err == nil {
		t.Cleanup(func() { _ = m.Close(t.Context()) })
	}
	return err
}

type (
	hidden struct{ cart []string }
	tagged struct {
		Cart []string `json:"-"`
	}
	both    struct{ Cart, cart []string }
	embeds  struct{ Data }
	own     struct{ cart []string }
	ownText struct{ cart string }
)

var _ = hidden{}.cart
var _ = both{}.cart

func (o own) MarshalJSON() ([]byte, error)      { return json.Marshal(o.cart) }
func (o *own) UnmarshalJSON(b []byte) error     { return json.Unmarshal(b, &o.cart) }
func (o ownText) MarshalText() ([]byte, error)  { return []byte(o.cart), nil }
func (o *ownText) UnmarshalText(b []byte) error { o.cart = string(b); return nil }

func TestDataThatCannotBeStored(t *testing.T) {
	for name, err := range map[string]error{
		"unexported fields":  create[hidden](t, session.Options{}),
		"a pointer to those": create[*hidden](t, session.Options{}),
		"fields tagged away": create[tagged](t, session.Options{}),
		"embeds unexported":  create[struct{ hidden }](t, session.Options{}),
		"a channel":          create[chan int](t, session.Options{}),
		"a field of no JSON": create[struct{ F func() }](t, session.Options{}),
	} {
		var invalid *slidingttl.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "T" {
			t.Errorf("%s: error %v, want one that names T", name, err)
		}
	}
	for name, err := range map[string]error{
		"a struct":             create[Data](t, session.Options{}),
		"an empty struct":      create[struct{}](t, session.Options{}),
		"a map":                create[map[string]any](t, session.Options{}),
		"anything":             create[any](t, session.Options{}),
		"some unexported":      create[both](t, session.Options{}),
		"an embedded struct":   create[embeds](t, session.Options{}),
		"its own JSON":         create[own](t, session.Options{}),
		"its own text":         create[ownText](t, session.Options{}),
		"a pointer to its own": create[*own](t, session.Options{}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShortPolicies: what nobody set must not stand in the way of a policy.
func TestShortPolicies(t *testing.T) {
	short := slidingttl.Policy{IdleGrace: 2 * time.Second, MaxLifetime: 5 * time.Second}
	if err := create[Data](t, session.Options{Policy: short}); err != nil {
		t.Errorf("a policy with short limits: %v", err)
	}
	err := create[Data](t, session.Options{Policy: short, RenewGrace: 3 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "Options.RenewGrace") {
		t.Errorf("a grace beyond the policy: %v", err)
	}
}

func TestMaxPerUserIsBounded(t *testing.T) {
	if err := create[Data](t, session.Options{MaxPerUser: 1000}); err != nil {
		t.Error(err)
	}
	err := create[Data](t, session.Options{MaxPerUser: 1001})
	if err == nil || !strings.Contains(err.Error(), "Options.MaxPerUser") {
		t.Errorf("1001 sessions of a user: %v", err)
	}
}
