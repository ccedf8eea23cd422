package upkeep_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// An impossible created_at is reported, with the unit in which it would make sense. It is not
// reaped, and is mended if the operator gives the unit.
func TestImplausible(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	add := func(key string, created, expires driver.Instant) {
		_, err := f.Insert(ctx, key, "v", driver.Life{CreatedAt: created, ExpiresAt: expires}, 1)
		ok(t, err)
	}
	later := f.Began.Add(20 * day)
	born := f.Began.Add(-5 * day)
	for i := range 5 {
		add(fmt.Sprint("seconds-", i), born/1000, later)
	}
	add("micros", born*1000, later)
	add("nanos", born*1_000_000, later)
	add("most", math.MaxInt64, later)
	add("ahead", f.Began.Add(200*day), later)
	add("early", 1, later)
	add("well", born, later)
	add("a clock that is ahead", f.Began.Add(30*1e9), later)
	audit, err := survey.Audit(ctx, f, policy, nil)
	ok(t, err)
	if audit.States[verdict.Implausible].Count != 10 || audit.States[verdict.Slides].Count != 2 || audit.States[verdict.PastCap].Count != 0 {
		t.Errorf("the report is\n%v", audit)
	}
	for doubt, n := range map[string]int64{"created_at looks like a number of seconds": 5, "created_at looks like a number of micros": 1, "created_at looks like a number of nanos": 1, "created_at is before 1990 or in the future": 3} {
		if audit.Doubts[doubt] != n {
			t.Errorf("%s: %d; want %d", doubt, audit.Doubts[doubt], n)
		}
	}
	write := upkeep.WriteOptions{Apply: true}
	reaped, err := upkeep.Reap(ctx, f, policy, &upkeep.ReapOptions{WriteOptions: write, PastCap: true, Expired: true, Retained: true})
	ok(t, err)
	if reaped.Counts["past_cap"] != 0 || reaped.Counts["implausible"] != 10 || len(keysOf(f)) != 12 {
		t.Fatalf("the report is\n%v", reaped)
	}
	mended, err := upkeep.Mend(ctx, f, &upkeep.MendOptions{WriteOptions: write})
	ok(t, err)
	if mended.Counts["mended"] != 0 || mended.Counts["left"] != 10 || mended.Counts["well"] != 2 {
		t.Errorf("without a unit:\n%v", mended)
	}
	for _, u := range []string{"seconds", "micros"} {
		_, err = upkeep.Mend(ctx, f, &upkeep.MendOptions{CreatedAt: u})
		ok(t, err)
		_, err = upkeep.Mend(ctx, f, &upkeep.MendOptions{WriteOptions: write, CreatedAt: u})
		ok(t, err)
	}
	if got := metaOf(f, "seconds-1").Life; got != (driver.Life{CreatedAt: born / 1000 * 1000, ExpiresAt: later}) {
		t.Errorf("seconds were mended to %+v", got)
	}
	if got := metaOf(f, "micros").CreatedAt; got != born {
		t.Errorf("microseconds were mended to %v; want %v", got, born)
	}
	audit, err = survey.Audit(ctx, f, policy, nil)
	ok(t, err)
	if audit.States[verdict.Implausible].Count != 4 || audit.States[verdict.Slides].Count != 8 {
		t.Errorf("the report is\n%v", audit)
	}
	if _, err := upkeep.Mend(ctx, f, &upkeep.MendOptions{CreatedAt: "weeks"}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a unit that is none: %v", err)
	}
}

// A record whose expiry is in seconds, too, is dead to the store: it is left, in a dry run as in one that writes.
func TestMendOfTheDead(t *testing.T) {
	f := open(t)
	both := driver.Scanned{Key: "both", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.Began.Add(-5*day) / 1000, ExpiresAt: f.Began.Add(20*day) / 1000}}}
	for _, apply := range []bool{false, true} {
		r, err := upkeep.Mend(t.Context(), walktest.Dead{Store: f, More: []driver.Scanned{both}}, &upkeep.MendOptions{WriteOptions: upkeep.WriteOptions{Apply: apply, Options: upkeep.Options{Segments: 1}}, CreatedAt: "seconds"})
		ok(t, err)
		if r.Counts["left"] != 1 || r.Reasons["problems"]["created_at looks like a number of seconds, and its expiry has passed"] != 1 {
			t.Errorf("apply %v:\n%v", apply, r)
		}
	}
}
