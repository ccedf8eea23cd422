package upkeep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

var errTrigger = errors.New("ERROR: this row is frozen (SQLSTATE P0001)")

// A record that cannot be written is counted by reason and reported, and the walk goes on. A
// resumed run does not stop there either. At the end, they fail in a row: they are no store that
// takes no writes.
func TestFailedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		const n = 2000
		for i := range n {
			f.Add(fmt.Sprint("user:", i), 0, 0)
		}
		long := &driver.InvalidError{Field: "key", Value: "300 bytes", Rule: "must be at most 255 bytes"}
		tries := make(map[string]int)
		var mu sync.Mutex
		s := spoilt{f, func(key string, next func() (driver.Version, error)) (driver.Version, error) {
			switch {
			case strings.HasSuffix(key, "11"), strings.HasSuffix(key, "44"), strings.HasSuffix(key, "77"):
				mu.Lock()
				defer mu.Unlock()
				tries[key]++
				return 0, errTrigger
			case strings.HasSuffix(key, "999"):
				return 0, long
			}
			return next()
		}}
		o := applied()
		failed := make(map[string]error)
		o.Failed = func(key string, err error) { failed[key] = err }
		var last upkeep.Checkpoint
		o.Save = func(c upkeep.Checkpoint) error { last = c; return nil }
		r, err := upkeep.Adopt(t.Context(), s, policy, o)
		ok(t, err)
		if !r.Done || r.Counts["adopted"] != n-62 || r.Failed != 62 || r.Failures[errTrigger.Error()] != 60 || r.Failures["key must be at most 255 bytes"] != 2 {
			t.Errorf("the report is\n%v", r)
		}
		if len(failed) != 62 || !errors.Is(failed["user:999"], driver.ErrInvalid) || !errors.Is(failed["user:77"], errTrigger) {
			t.Errorf("Options.Failed got %v", failed)
		}
		persistent := 0 // tried as if the store were down: the last of a segment may be
		for _, n := range tries {
			if n > 6 {
				persistent++
			}
		}
		if tries["user:77"] < 4 || persistent > 4 {
			t.Errorf("%d of %d records were tried more than three times, and three times at the end", persistent, len(tries))
		}
		if text := r.String(); !strings.Contains(text, "62 failed") || strings.Contains(text, "user:") {
			t.Errorf("the text is\n%s", text)
		}
		o.Resume = &last
		if r, err = upkeep.Adopt(t.Context(), s, policy, o); err != nil || r.Failed != 62 {
			t.Errorf("gone on with: %v\n%v", err, r)
		}
	})
}

// A store that takes no writes at all is not so many records that fail.
func TestTooManyFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 5000 {
			f.Add(fmt.Sprint(i), 0, 0)
		}
		down, n := errors.New("down"), 0
		var mu sync.Mutex
		every := func(of int) func(string, func() (driver.Version, error)) (driver.Version, error) {
			return func(_ string, next func() (driver.Version, error)) (driver.Version, error) {
				mu.Lock()
				n++
				fails := n%of == 0
				mu.Unlock()
				if fails {
					return 0, fmt.Errorf("%w: %w", driver.ErrRefused, down)
				}
				return next()
			}
		}
		var last upkeep.Checkpoint
		o := applied()
		o.Save = func(c upkeep.Checkpoint) error { last = c; return nil }
		began := time.Now()
		r, err := upkeep.Adopt(t.Context(), spoilt{f, func(string, func() (driver.Version, error)) (driver.Version, error) { return 0, down }}, policy, o)
		if !errors.Is(err, down) || last.Done() || r.Records != r.Waiting || len(last.Pending) != int(r.Waiting) || time.Since(began) > 2*time.Minute {
			t.Errorf("a store that is down: %v after %v\n%v", err, time.Since(began), r)
		}
		r, err = upkeep.Adopt(t.Context(), spoilt{f, every(3)}, policy, o)
		if !errors.Is(err, down) || !strings.Contains(err.Error(), "Options.MaxFailed") {
			t.Errorf("a store that refuses a third: %v\n%v", err, r)
		}
		o.MaxFailed = 1
		if r, err = upkeep.Adopt(t.Context(), spoilt{f, every(3)}, policy, o); err != nil || r.Failed == 0 || !r.Done {
			t.Errorf("whatever fails: %v\n%v", err, r)
		}
	})
}

// A dry run asks the driver about each key.
func TestDryRunJudgesKeys(t *testing.T) {
	f := open(t)
	f.Add("a", 0, 0)
	long := strings.Repeat("k", 300)
	f.Add(long, 0, 0)
	r, err := upkeep.Adopt(t.Context(), picky{f}, policy, nil)
	ok(t, err)
	if r.Counts["adopted"] != 1 || r.Failures["key must be at most 255 bytes"] != 1 {
		t.Errorf("the report is\n%v", r)
	}
}

// picky is a store that takes keys of 255 bytes.
type picky struct{ *fixture }

func (p picky) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if err := driver.CheckKey(key, 255); err != nil {
		return driver.Raw{}, err
	}
	return p.fixture.Raw(ctx, key)
}

// A record that dies while its field is read is counted, and the run goes on.
func TestAdoptFromFieldVanished(t *testing.T) {
	f := open(t)
	for _, key := range []string{"a", "b", "gone"} {
		f.Add(key, 0, 0)
	}
	o := applied()
	o.Origin = upkeep.FromField("born")
	r, err := upkeep.Adopt(t.Context(), rawless{rawed{f, map[string]driver.Raw{
		"a": {Value: []byte(`{"born":1700000000}`)}, "b": {Value: []byte(`{"born":1700000000}`)},
	}}}, policy, o)
	ok(t, err)
	if r.Counts["vanished"] != 1 || r.Counts["too_old"] != 2 || r.Failed != 0 {
		t.Errorf("the report is\n%v", r)
	}
}

// rawless finds only those that it has.
type rawless struct{ rawed }

func (r rawless) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if _, ok := r.raws[key]; !ok {
		return driver.Raw{}, driver.ErrNotFound
	}
	return r.rawed.Raw(ctx, key)
}

// A checkpoint holds for one store and one rule with its value, and says which.
func TestCheckpointOfAnother(t *testing.T) {
	f := open(t)
	f.Add("a", 0, 40*day)
	var text []byte
	options := func(store string, rule upkeep.Origin) *upkeep.AdoptOptions {
		o := applied()
		o.Store, o.Origin = store, rule
		o.Save = func(c upkeep.Checkpoint) (err error) { text, err = json.Marshal(c); return err }
		return o
	}
	_, err := upkeep.Adopt(t.Context(), f, policy, options("redis://a", upkeep.FromExpiry(50*day)))
	ok(t, err)
	for name, o := range map[string]*upkeep.AdoptOptions{
		"redis://b":       options("redis://b", upkeep.FromExpiry(50*day)),
		"expiry less 984": options("redis://a", upkeep.FromExpiry(41*day)),
		"field born":      options("redis://a", upkeep.FromField("born")),
	} {
		o.Resume = new(upkeep.Checkpoint)
		ok(t, json.Unmarshal(text, o.Resume))
		_, err := upkeep.Adopt(t.Context(), f, policy, o)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "redis://a, ") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	o := options("redis://a", upkeep.FromExpiry(50*day))
	o.Resume = new(upkeep.Checkpoint)
	ok(t, json.Unmarshal(text, o.Resume))
	_, err = upkeep.Adopt(t.Context(), f, policy, o)
	ok(t, err)
	o.Resume, o.Origin.Name = nil, ""
	if _, err := upkeep.Adopt(t.Context(), f, policy, o); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a rule without a name: %v", err)
	}
}

// A resumed run counts those that failed before anew.
func TestStoreDownOverAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		const n = 60
		for i := range n {
			f.Add(fmt.Sprint(i), 0, 0)
		}
		down := errors.New("down")
		isDown := true
		s := spoilt{f, func(_ string, next func() (driver.Version, error)) (driver.Version, error) {
			if isDown {
				return 0, down
			}
			return next()
		}}
		var last []byte
		o := applied()
		o.Save = func(c upkeep.Checkpoint) (err error) { last, err = json.Marshal(c); return err }
		resume := func() (*upkeep.Report, error) {
			c := new(upkeep.Checkpoint)
			ok(t, json.Unmarshal(last, c))
			o.Resume = c
			r, err := upkeep.Adopt(t.Context(), s, policy, o)
			return r, err
		}
		if r, err := upkeep.Adopt(t.Context(), s, policy, o); !errors.Is(err, upkeep.ErrTooMany) || r.Waiting != n || r.Failed != 0 {
			t.Fatalf("the first run: %v\n%v", err, r)
		}
		r, err := resume()
		if !errors.Is(err, upkeep.ErrTooMany) {
			t.Errorf("resumed while the store is down: error %v, done %v, %d of %d records failed, %d written", err, r.Done, r.Failed, n, r.Counts["adopted"])
		}
		isDown = false
		if r, err = resume(); err != nil || !r.Done || r.Failed > 32 {
			t.Errorf("resumed once the store is up: %v\n%v", err, r)
		}
	})
}

// atRetry calls f when the walk asks whether the store is there, before its last attempts.
type atRetry struct {
	spoilt
	segments *int
	f        func()
}

func (s atRetry) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	if *s.segments++; *s.segments == 2 && s.f != nil {
		s.f()
	}
	return s.spoilt.Segments(ctx, n)
}

// A shard is away for a while, the run is stopped, and resumed while the whole store takes no writes.
func TestStoreDownAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		const n = 2000
		for i := range n {
			f.Add(fmt.Sprint("user:", i), 0, 0)
		}
		down := errors.New("down")
		mode := "shard"
		sp := spoilt{f, func(key string, next func() (driver.Version, error)) (driver.Version, error) {
			of := strings.HasSuffix(key, "11") || strings.HasSuffix(key, "44") || strings.HasSuffix(key, "77")
			if mode == "all" || mode == "shard" && of {
				return 0, down
			}
			return next()
		}}
		var last []byte
		o := applied()
		o.Save = func(c upkeep.Checkpoint) (err error) { last, err = json.Marshal(c); return err }
		ctx, cancel := context.WithCancel(t.Context())
		r, err := upkeep.Adopt(ctx, atRetry{sp, new(int), cancel}, policy, o)
		if !errors.Is(err, context.Canceled) || r.Waiting != 60 {
			t.Fatalf("%v\n%v", err, r)
		}
		mode = "all"
		o.Resume = new(upkeep.Checkpoint)
		ok(t, json.Unmarshal(last, o.Resume))
		r, err = upkeep.Adopt(t.Context(), atRetry{sp, new(int), nil}, policy, o)
		if !errors.Is(err, upkeep.ErrTooMany) {
			t.Errorf("60 writes failed, none landed in this run: error %v, done %v, %d failed", err, r.Done, r.Failed)
		}
	})
}
