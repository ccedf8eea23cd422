package session_test

import (
	"errors"
	"net/http"
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

// TestDataOfNoFields: checkData has the cases.
func TestDataOfNoFields(t *testing.T) {
	var invalid *slidingttl.InvalidError
	if err := create[struct{ cart []string }](t, session.Options{}); !errors.As(err, &invalid) || invalid.Field != "T" {
		t.Errorf("error %v, want one that names T", err)
	}
}

// TestShortPolicies: the defaults of other options must fit any policy.
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

// TestOptionsAtTheirBounds: the largest and smallest values that a rule allows are accepted.
func TestOptionsAtTheirBounds(t *testing.T) {
	const day = 24 * time.Hour
	for name, o := range map[string]session.Options{
		"SameSite None":            {SameSite: http.SameSiteNoneMode},
		"SameSite Default":         {SameSite: http.SameSiteDefaultMode},
		"RenewGrace of 1 ms":       {RenewGrace: time.Millisecond},
		"RenewGrace as Policy":     {RenewGrace: 30 * time.Minute},
		"RenewGrace as Remember":   {RenewGrace: time.Minute, Remember: slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}},
		"RenewEvery over the rest": {RenewEvery: 10*time.Second + 1},
		"Remember of 400 days":     {Remember: slidingttl.Policy{IdleGrace: 400 * day, MaxLifetime: 400 * day}},
		"RenewEvery of 370 days":   {RenewEvery: 370 * day, Remember: slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: slidingttl.NoCap}},
		"MaxRequest of 1 ms":       {MaxRequest: time.Millisecond},
		"MaxRequest as Policy":     {MaxRequest: 12 * time.Hour},
		"MaxData of a byte":        {MaxData: 1},
		"MaxPerUser of one":        {MaxPerUser: 1},
	} {
		if err := create[Data](t, o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
