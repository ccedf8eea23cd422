package couchbase_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const day = 24 * time.Hour

// Check counts what a lowering leaves for other processes' clocks too.
func TestCheckCountsLowering(t *testing.T) {
	f := open(t)
	f.SetTime(time.Time{})
	s := newStore(t, f, newDriver[profile](t, f, &couchbase.Options{Retain: time.Hour}), slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: day}, nil)
	for maxTTL, sound := range map[time.Duration]bool{2*time.Hour + 2*time.Second: false, 2*time.Hour + time.Minute + 2*time.Second: true} {
		ok(t, "SetBucketMaxTTL", f.SetBucketMaxTTL(f.Bucket(), maxTTL))
		if err := s.Check(t.Context()); (err == nil) != sound {
			t.Errorf("with a maxTTL of %v: %v", maxTTL, err)
		}
	}
}

// Check names a maxTTL that would cut records short, and both figures.
func TestCheckFindsMaxTTL(t *testing.T) {
	for _, c := range []struct {
		name               string
		bucket, collection time.Duration
		noExpiry           bool
		field, value       string // of the error; empty: none
	}{
		{name: "none"},
		{name: "long enough", bucket: 90*day + 2*time.Second},
		{name: "cut by rounding", bucket: 90 * day, field: "bucket maxTTL", value: "2160h0m0s"},
		{name: "bucket", bucket: 30 * day, field: "bucket maxTTL", value: "720h0m0s"},
		{name: "collection", collection: time.Hour, field: "collection maxTTL", value: "1h0m0s"},
		{name: "collection hides a longer bucket", bucket: 90 * day, collection: time.Hour, field: "collection maxTTL", value: "1h0m0s"},
		{name: "collection hides a shorter bucket", bucket: time.Hour, collection: 91 * day},
		{name: "collection without expiry", bucket: time.Hour, noExpiry: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t)
			f.SetTime(time.Time{}) // Check compares with this process's clock
			ok(t, "SetBucketMaxTTL", f.SetBucketMaxTTL(f.Bucket(), c.bucket))
			ok(t, "AddCollection", f.AddCollection(f.Bucket(), "_default", "named", &couchbasetest.CollectionOptions{MaxTTL: c.collection, NoExpiry: c.noExpiry}))
			// A new collection exists for sure once it has answered.
			named := f.c.Bucket().Collection("named")
			for _, probe := range []string{"", "check-probe"} {
				d, err := couchbase.New[profile](named, &couchbase.Options{ProbeKey: probe})
				ok(t, "New", err)
				s := newStore(t, f, d, slidingttl.Policy{IdleGrace: 60 * day, MaxLifetime: 90 * day, Slack: 30 * day}, nil)
				counts := f.during(func() { err = s.Check(t.Context()) })
				var invalid *driver.InvalidError
				errors.As(err, &invalid)
				switch {
				case c.field == "":
					ok(t, "Check with ProbeKey "+probe, err)
				case invalid == nil:
					t.Errorf("Check with ProbeKey %q: %v; want an InvalidError", probe, err)
				case probe == "" && (invalid.Field != c.field || invalid.Value != c.value):
					t.Errorf("Check found %v; want %s %s", err, c.field, c.value)
				case probe != "" && invalid.Field != "stored expiry":
					t.Errorf("Check found %v; want the stored expiry", err)
				case !strings.Contains(err.Error(), "2160h0m0s"):
					t.Errorf("Check does not name the longest life: %v", err)
				}
				if wrote := counts.Mutations != 0; wrote != (probe != "") {
					t.Errorf("Check with ProbeKey %q made %d mutations", probe, counts.Mutations)
				}
				all, err := d.Segments(t.Context(), 1)
				ok(t, "Segments", err)
				if left, err := d.Scan(t.Context(), all[0], 10); err != nil || len(left.Records) > 0 {
					t.Errorf("the probe was left behind: %+v, %v", left, err)
				}
			}
		})
	}
}

// With a probe Check compares the server's clock. If that clock stands still, the hybrid logical
// clock of a vBucket is ahead of it after every write.
func TestCheckFindsSkew(t *testing.T) {
	for _, running := range []bool{true, false} {
		for _, skew := range []time.Duration{0, 5 * time.Second, -5 * time.Second} {
			t.Run(fmt.Sprintf("running %v, %v ahead", running, skew), func(t *testing.T) {
				f := open(t)
				d := newDriver[profile](t, f, &couchbase.Options{ProbeKey: "check-probe"})
				if running {
					f.SetTime(time.Time{})
					f.Advance(skew)
				} else {
					f.SetTime(time.Now().Add(skew))
				}
				err := d.Check(t.Context(), day)
				if skew == 0 {
					ok(t, "Check with equal clocks", err)
					return
				}
				var invalid *driver.InvalidError
				if !errors.As(err, &invalid) || invalid.Field != "server's clock" || strings.HasPrefix(invalid.Value, "-") != (skew < 0) {
					t.Errorf("Check: %v; want the server's clock", err)
				}
			})
		}
	}
}

// If earlier writes of a vBucket came from a clock that was ahead, its CAS does not show the
// current clock, unless it is behind this process's even so.
func TestCheckWithoutWallTime(t *testing.T) {
	for _, c := range []struct {
		wrote, now time.Duration // from this process's clock
		behind     bool
	}{
		{wrote: time.Minute, now: -time.Hour}, // ahead, also when all is written
		{wrote: time.Hour},
		{wrote: -time.Minute, now: -time.Hour, behind: true},
	} {
		f := open(t)
		d := newDriver[profile](t, f, &couchbase.Options{ProbeKey: "check-probe"})
		wrote := time.Now().Add(c.wrote)
		f.SetTime(wrote)
		for n := range 1000 { // so that each vBucket has one
			_, err := f.c.Upsert(fmt.Sprint("k", n), 1, nil)
			ok(t, "Upsert", err)
		}
		f.SetTime(time.Now().Add(c.now))
		least := time.Since(wrote) - time.Millisecond
		err := d.Check(t.Context(), 2*day)
		most := time.Since(wrote)
		if !c.behind {
			if err == nil || !strings.Contains(err.Error(), "the server's clock cannot be read") {
				t.Errorf("written at %v, now %v: %v; want: the server's clock cannot be read", c.wrote, c.now, err)
			}
			continue
		}
		invalid, _ := errors.AsType[*driver.InvalidError](err)
		if invalid == nil {
			t.Fatalf("written at %v, now %v: %v", c.wrote, c.now, err)
		}
		ahead, _, _ := strings.Cut(invalid.Value, " ")
		if skew, err := time.ParseDuration(ahead); err != nil || -skew < least || -skew > most {
			t.Errorf("written at %v, now %v: the clock is %s; want %v to %v behind", c.wrote, c.now, invalid.Value, least, most)
		}
	}
}

// If Check cannot read what it needs, it returns an error.
func TestCheckNeedsTheServer(t *testing.T) {
	f := open(t)
	for _, probe := range []string{"", "check-probe"} {
		d := newDriver[profile](t, f, &couchbase.Options{ProbeKey: probe})
		ok(t, "Inject", f.Inject(couchbasetest.Fault{Status: memd.StatusInternalError}))
		if err := d.Check(t.Context(), day); !errors.Is(err, gocb.ErrInternalServerFailure) {
			t.Errorf("with a failing server: %v", err)
		}
		f.ClearFaults()
		if err := d.Check(t.Context(), 100*365*day); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("with a life past 2106: %v", err)
		}
	}
	if err := newDriver[profile](t, f, nil).Check(t.Context(), day); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// A fleet starts together with one ProbeKey and different policies.
func TestChecksTogether(t *testing.T) {
	f := open(t)
	f.SetTime(time.Time{})
	var group errgroup.Group
	for n := range 8 {
		d := newDriver[profile](t, f, &couchbase.Options{ProbeKey: "check-probe"})
		group.Go(func() (err error) {
			for range 20 {
				err = errors.Join(err, d.Check(t.Context(), time.Duration(1+n)*day))
			}
			return err
		})
	}
	ok(t, "Check", group.Wait())
}

// A Check with a probe ends soon after its context, and writes nothing if that had ended before.
func TestCheckEnds(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, &couchbase.Options{ProbeKey: "probe", Timeout: 20 * time.Second})
	_, err := d.Get(t.Context(), "k") // connected
	if !errors.Is(err, driver.ErrNotFound) {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	sent := f.during(func() { err = d.Check(ended, time.Hour) })
	if sent != (couchbasetest.Counts{}) || !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: sent %+v, %v", sent, err)
	}
	defer f.Hang()()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err = d.Check(ctx, time.Hour)
	if took := time.Since(begun); took > 10*time.Second || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "\n") {
		t.Errorf("of a node that hangs: %v after %v; want its context's error alone, soon", err, took)
	}
}
