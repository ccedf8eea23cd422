package dynamodb

import (
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A touch of a deleted record finds none, however long ago that was: its life item still has an expiry that
// another process gave it.
func TestTouchOfDeletedLongAgo(t *testing.T) {
	for _, gap := range []time.Duration{time.Minute, doubtLasts + time.Minute} {
		tbl, clock := open[session](t, apartly()), handsAt(base)
		tbl.clock = clock.Now
		m := tbl.mustInsert(t, "k", session{}, lasting(5*time.Hour), base)
		tbl.mustTouch(t, "k", m, lasting(8*time.Hour), base)
		if err := tbl.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		clock.forward(gap)
		_, err := tbl.Touch(t.Context(), "k", m, lasting(7*time.Hour), base.Add(gap))
		wantNotFound(t, "a touch, "+gap.String()+" after the deletion", err)
	}
}

// A connection keeps the entry that it began with. TouchEntry does not take the record for touched by another
// process when it was deleted more than an hour ago.
func TestTouchEntryOfDeletedLongAgo(t *testing.T) {
	tbl, clock := open[session](t, apartly()), handsAt(base)
	tbl.clock = clock.Now
	p := slidingttl.Policy{IdleGrace: 5 * time.Hour, MaxLifetime: 12 * time.Hour}
	mine, others := openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: clock.Now}), openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: clock.Now})
	read := func() {
		t.Helper()
		if _, err := others.Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	if err := others.Insert(t.Context(), "k", session{}); err != nil {
		t.Fatal(err)
	}
	clock.forward(4 * time.Hour)
	read() // it lives for five hours more
	clock.forward(time.Hour)
	e, err := mine.Peek(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	clock.forward(150 * time.Minute)
	read() // until its cap
	if err := others.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	clock.forward(70 * time.Minute)
	if got, err := mine.TouchEntry(t.Context(), "k", e); err != nil || got.Meta != e.Meta {
		t.Errorf("TouchEntry returns %+v, %v; want %+v", got.Meta, err, e.Meta)
	}
	if err := mine.Keep(t.Context(), "k"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Keep returns %v", err)
	}
}

// A touch whose first attempt had no answer does not take another process's for its own where a deletion may
// have come between. It does where the record is there.
func TestTouchResentBesideDeletion(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		for how, landed := range map[string]bool{"a 500": false, "a lost answer": true} {
			tbl := open[session](t, apartly(), impatient(3))
			m := tbl.mustInsert(t, "k", session{}, lasting(5*time.Hour), base)
			tbl.mustTouch(t, "k", m, lasting(8*time.Hour), base)
			if !deleted {
				tbl.wire.between(refuse("DeleteItem"))
			}
			if err := tbl.Delete(t.Context(), "k"); (err == nil) != deleted {
				t.Fatal(err)
			}
			tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
				if op != "UpdateItem" {
					return send()
				}
				tbl.wire.between(nil)
				if landed {
					if resp, err := send(); err == nil {
						_ = resp.Body.Close()
					}
				}
				return failure(req, 500, "InternalServerError"), nil
			})
			_, err := tbl.Touch(t.Context(), "k", m, lasting(8*time.Hour), base)
			if deleted && !errors.Is(err, driver.ErrAmbiguous) || !deleted && err != nil {
				t.Errorf("deleted %t, after %s: %v", deleted, how, err)
			}
		}
	}
}
