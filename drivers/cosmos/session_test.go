package cosmos

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Under Session consistency a driver sees its own writes though replicas lag behind, and by
// Latest those of other processes.
func TestSessions(t *testing.T) {
	f := open[session](t, nil)
	f.account.SetLag(true)
	m := f.mustInsert(t, "k", session{User: "ann"}, lasting(time.Hour), base)
	if got := f.mustGet(t, "k"); got.Meta != m {
		t.Fatalf("after its own insert a driver reads %+v, want %+v", got.Meta, m)
	}
	later := lasting(2 * time.Hour)
	version, err := f.Touch(t.Context(), "k", m, later, base)
	if err != nil {
		t.Fatal(err)
	}
	touched := driver.Meta{Life: later, Version: version}
	if got := f.mustGet(t, "k"); got.Meta != touched {
		t.Errorf("after its own touch a driver reads %+v, want %+v", got.Meta, touched)
	}
	other := f.another(t)
	if e, err := other.Get(t.Context(), "k"); err != nil || e.Meta != m {
		t.Fatalf("another process reads %+v, %v: the test proves nothing", e.Meta, err)
	}
	other = f.another(t) // that read has taught it
	e, err := other.Latest(t.Context(), "k")
	if err != nil || e.Meta != touched {
		t.Errorf("by Latest another process reads %+v, %v; want %+v", e.Meta, err, touched)
	}
	if multi, err := other.GetMulti(t.Context(), []string{"k"}); err != nil || multi["k"].Meta != touched {
		t.Errorf("and from then on by GetMulti %+v, %v; want %+v", multi, err, touched)
	}
	// What was found in a write's way is what is there, not what a replica has.
	_, err = f.another(t).Touch(t.Context(), "k", m, lasting(3*time.Hour), base)
	wantConflict(t, "Touch by a process that knows an older record", err, touched)
	_, err = f.another(t).Insert(t.Context(), "k", session{}, lasting(time.Hour), base)
	wantConflict(t, "Insert by a process that knows of no record", err, touched)
	if err := f.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	_, err = f.another(t).Latest(t.Context(), "k")
	wantNotFound(t, "Latest of a record that is deleted", err)
	_, err = f.Get(t.Context(), "k")
	wantNotFound(t, "Get after its own delete", err)
}

// Tokens of a container that was made anew are forgotten, after one read that says why.
func TestSessionThatIsGone(t *testing.T) {
	f := open[session](t, nil)
	f.mustInsert(t, "k", session{}, lasting(time.Hour), base)
	f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpRead}, Status: http.StatusNotFound, SubStatus: 1002, Count: 2})
	if _, err := f.Get(t.Context(), "k"); err == nil || errors.Is(err, driver.ErrNotFound) {
		t.Errorf("a read that the session was not available for: error %v, want the client's", err)
	}
	if token := f.sessions.token(); token != nil {
		t.Errorf("it keeps the token %q", *token)
	}
	f.mustGet(t, "k")
}

func TestNewerTokens(t *testing.T) {
	var s sessions
	for _, step := range []struct{ part, token, want string }{
		{"0", "-1#5", "0:-1#5"},
		{"0", "-1#4", "0:-1#5"},
		{"1", "2#9#0=7", "0:-1#5,1:2#9#0=7"},
		{"0", "-1#12", "0:-1#12,1:2#9#0=7"},
		{"1", "3#1#0=1", "0:-1#12,1:3#1#0=1"},
		{"1", "2#99#0=1", "0:-1#12,1:3#1#0=1"},
	} {
		s.observe(&http.Response{Header: http.Header{"X-Ms-Session-Token": {step.part + ":" + step.token}}})
		if got := s.token(); got == nil || *got != step.want {
			t.Errorf("after %s:%s the token is %v, want %s", step.part, step.token, got, step.want)
		}
	}
}
