package upkeep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func applied() *upkeep.AdoptOptions {
	return &upkeep.AdoptOptions{WriteOptions: upkeep.WriteOptions{Apply: true}}
}

func TestAdopt(t *testing.T) {
	f := open(t)
	for i := range 100 {
		f.Add(fmt.Sprint("bare-", i), 0, 0)
	}
	f.Add("own", -day, 20*day)
	f.Add("dies first", 0, 2*day)
	f.Add("dies too late", 0, 365*day)
	own := metaOf(f, "own")

	dry, err := upkeep.Adopt(t.Context(), f, policy, nil)
	ok(t, err)
	if dry.Applied || dry.Counts["adopted"] != 102 || dry.Counts["already"] != 1 || metaOf(f, "bare-0").CreatedAt != 0 {
		t.Fatalf("a dry run: %+v, created_at %d", dry, metaOf(f, "bare-0").CreatedAt)
	}
	r, err := upkeep.Adopt(t.Context(), f, policy, applied())
	ok(t, err)
	if !r.Applied || r.Counts["adopted"] != 102 || r.Counts["already"] != 1 || r.Records != 103 {
		t.Fatalf("the report is\n%v", r)
	}
	after := driver.Floor(f.Now())
	for _, key := range keysOf(f) {
		m := metaOf(f, key)
		switch {
		case key == "own":
			if m != own {
				t.Errorf("a record that had created_at was written")
			}
			continue
		case m.CreatedAt <= f.Began.Add(-60*day) || m.CreatedAt > after:
			t.Errorf("%s was created at %v", key, m.CreatedAt.Time())
		}
		least, most := f.Began.Add(30*day), after.Add(33*day)
		if key == "dies first" {
			least, most = f.Began.Add(2*day), f.Began.Add(2*day)
		}
		if m.ExpiresAt < min(least, policy.Cap(m.CreatedAt)) || m.ExpiresAt > most {
			t.Errorf("%s expires at %v", key, m.ExpiresAt.Time())
		}
	}
	audit, err := survey.Audit(t.Context(), f, policy, nil)
	ok(t, err)
	if audit.States[verdict.Slides].Count != 103 {
		t.Errorf("after the adoption:\n%v", audit)
	}
	again, err := upkeep.Adopt(t.Context(), f, policy, applied())
	ok(t, err)
	if again.Counts["adopted"] != 0 || again.Counts["already"] != 103 {
		t.Errorf("adopted twice:\n%v", again)
	}
}

// exiting is a store in which a function of the caller's, as Options.KeyOf of a driver, ends the goroutine or panics.
type exiting struct {
	*fixture
	how func()
}

func (s exiting) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if len(from) > 0 {
		s.how()
	}
	return s.fixture.Scan(ctx, from, limit)
}

// A walk in which a caller's function panics, or ends its goroutine, ends with an error: its report would be of a part.
func TestWalkThatExits(t *testing.T) {
	for name, how := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		f := open(t)
		for i := range 100 {
			f.Add(fmt.Sprint("bare-", i), 0, 0)
		}
		r, err := upkeep.Adopt(t.Context(), exiting{f, how}, policy, applied())
		if err == nil || errors.As(err, new(*driver.PanicError)) != (name == "panic") {
			t.Errorf("%s: %v; the report is\n%v", name, err, r)
		}
	}
}

// rawExits is a store whose Raw ends, as by a caller's function of a driver.
type rawExits struct {
	*fixture
	how func()
}

func (s rawExits) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if key == "bare-7" {
		s.how()
	}
	return s.fixture.Raw(ctx, key)
}

// What a caller's function does to one record ends a run with an error, and the record is pending.
func TestRecordThatExits(t *testing.T) {
	for name, how := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		for where, change := range map[string]func(*fixture, *upkeep.AdoptOptions) upkeep.Store{
			"Raw": func(f *fixture, o *upkeep.AdoptOptions) upkeep.Store {
				o.Keys = keysOf(f)
				return rawExits{f, how}
			},
			"PolicyFor": func(f *fixture, o *upkeep.AdoptOptions) upkeep.Store {
				o.PolicyFor = func(key string) slidingttl.Policy {
					if key == "bare-7" {
						how()
					}
					return policy
				}
				return f
			},
			"Origin": func(f *fixture, o *upkeep.AdoptOptions) upkeep.Store {
				o.Origin = upkeep.Origin{Name: "o", Created: func(_ context.Context, r upkeep.Record) (driver.Instant, bool, error) {
					if r.Key == "bare-7" {
						how()
					}
					return f.Began, true, nil
				}}
				return f
			},
		} {
			f := open(t)
			for i := range 40 {
				f.Add(fmt.Sprint("bare-", i), 0, 0)
			}
			o := applied()
			r, err := upkeep.Adopt(t.Context(), change(f, o), policy, o)
			if err == nil || errors.As(err, new(*driver.PanicError)) != (name == "panic") {
				t.Errorf("%s in %s: %v; the report is\n%v", name, where, err, r)
			}
		}
	}
}

func TestAdoptByRule(t *testing.T) {
	f := open(t)
	f.Add("expires in 20 days", 0, 20*day)
	f.Add("expires in 170 days", 0, 170*day) // written in the future, so now
	f.Add("no expiry", 0, 0)
	f.Add("written 100 days ago", 0, 9*day)
	o := applied()
	o.Origin = upkeep.FromExpiry(109 * day)
	o.Resume = nil
	r, err := upkeep.Adopt(t.Context(), f, policy, o)
	ok(t, err)
	if r.Counts["adopted"] != 2 || r.Counts["no_origin"] != 1 || r.Counts["too_old"] != 1 {
		t.Fatalf("the report is\n%v", r)
	}
	if got, want := metaOf(f, "expires in 20 days").CreatedAt, f.Began.Add(-89*day); got != want {
		t.Errorf("created_at is %v; want %v", got.Time(), want.Time())
	}
	if m := metaOf(f, "expires in 170 days"); m.CreatedAt < f.Began || m.CreatedAt > driver.Floor(f.Now()) {
		t.Errorf("created_at is %v; want now", m.CreatedAt.Time())
	}
	if m := metaOf(f, "written 100 days ago"); m.CreatedAt != 0 || m.ExpiresAt != f.Began.Add(9*day) {
		t.Errorf("a record that is too old was written")
	}
	o.TooOld = true
	r, err = upkeep.Adopt(t.Context(), f, policy, o)
	ok(t, err)
	if m := metaOf(f, "written 100 days ago"); r.Counts["adopted"] != 1 || m.CreatedAt < f.Began.Add(-60*day) {
		t.Errorf("created_at is %v; the report is\n%v", m.CreatedAt.Time(), r)
	}
	failing := errors.New("no such field")
	o.Origin = upkeep.Origin{Name: "none", Created: func(context.Context, upkeep.Record) (driver.Instant, bool, error) {
		return 0, false, fmt.Errorf("%w: %w", driver.ErrInvalid, failing)
	}}
	if r, err = upkeep.Adopt(t.Context(), f, policy, o); err != nil || r.Failed != 1 {
		t.Errorf("a rule that fails: %v\n%v", err, r)
	}
}

// rawed hands out values of a test's making.
type rawed struct {
	*fixture
	raws map[string]driver.Raw
}

func (r rawed) Raw(_ context.Context, key string) (driver.Raw, error) { return r.raws[key], nil }

func TestAdoptFromField(t *testing.T) {
	f := open(t)
	want := f.Began.Add(-10*day) / 1000 * 1000
	raws := map[string]driver.Raw{
		"rfc":     {Value: []byte(`{"meta":{"born":"` + want.Time().Format(time.RFC3339) + `"}}`)},
		"seconds": {Value: fmt.Appendf(nil, `{"meta":{"born":%d}}`, want/1000)},
		"millis":  {Value: fmt.Appendf(nil, `{"meta":{"born":"%d"}}`, want)},
		"dynamo":  {Value: fmt.Appendf(nil, `{"meta":{"M":{"born":{"N":"%d"}}}}`, want)},
		"xattr":   {Fields: map[string]string{"meta.born": fmt.Sprintf(`"%d"`, want)}},
		"none":    {Value: []byte(`{"meta":{}}`)},
		"word":    {Value: []byte(`{"meta":{"born":"yesterday"}}`)},
		"binary":  {Value: []byte{0}},
	}
	for key := range raws {
		f.Add(key, 0, 0)
	}
	o := applied()
	o.Origin = upkeep.FromField("meta.born")
	r, err := upkeep.Adopt(t.Context(), rawed{f, raws}, policy, o)
	ok(t, err)
	if r.Counts["adopted"] != 5 || r.Counts["no_origin"] != 3 {
		t.Errorf("the report is\n%v", r)
	}
	for _, key := range []string{"rfc", "seconds", "millis", "dynamo", "xattr"} {
		if got := metaOf(f, key).CreatedAt; got != want {
			t.Errorf("%s: created_at is %v; want %v", key, got.Time(), want.Time())
		}
	}
}

// The figures of DESIGN 7: what is adopted in a moment does not die in a moment.
func TestAdoptSpreadsDeaths(t *testing.T) {
	const n = 10000
	f := open(t)
	for i := range n {
		f.Add(fmt.Sprint("user:", i), 0, 0)
	}
	_, err := upkeep.Adopt(t.Context(), f, policy, applied())
	ok(t, err)
	var idle, read []driver.Instant
	for _, key := range keysOf(f) {
		m := metaOf(f, key)
		idle = append(idle, m.ExpiresAt)
		read = append(read, policy.Cap(m.CreatedAt))
	}
	for name, c := range map[string]struct {
		deaths []driver.Instant
		window time.Duration
	}{
		"left alone":      {idle, policy.Slack / 100},
		"read throughout": {read, 60 * day / 100},
	} {
		most := wave(c.deaths, c.window)
		t.Logf("%s: at most %.2f %% die in %v", name, 100*most, c.window)
		if most > 0.02 {
			t.Errorf("%s: %.1f %% die in one %v", name, 100*most, c.window)
		}
	}
}

// wave is the largest share of deaths within any window.
func wave(deaths []driver.Instant, window time.Duration) float64 {
	sorted := append([]driver.Instant(nil), deaths...)
	sortInstants(sorted)
	most, from := 0, 0
	for to := range sorted {
		for sorted[to]-sorted[from] >= driver.Instant(window.Milliseconds()) {
			from++
		}
		most = max(most, to-from+1)
	}
	return float64(most) / float64(len(deaths))
}

// spoilt is a store whose touches do what a test says.
type spoilt struct {
	*fixture
	touch func(key string, next func() (driver.Version, error)) (driver.Version, error)
}

func (s spoilt) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return s.touch(key, func() (driver.Version, error) { return s.fixture.Touch(ctx, key, was, life, now) })
}

// Live traffic comes between the look and the write: what it did stands.
func TestAdoptLosesToLiveTraffic(t *testing.T) {
	f := open(t)
	for _, key := range []string{"deleted", "adopted", "touched", "overwritten"} {
		f.Add(key, 0, 40*day)
	}
	ctx := t.Context()
	life := driver.Life{CreatedAt: f.Began, ExpiresAt: f.Began.Add(day)}
	seen := make(map[string]bool)
	s := spoilt{f, func(key string, next func() (driver.Version, error)) (driver.Version, error) {
		if !seen[key] {
			seen[key] = true
			m := metaOf(f, key)
			var err error
			switch key {
			case "deleted":
				err = f.Delete(ctx, key)
			case "adopted":
				_, err = f.Touch(ctx, key, m, life, f.Began)
			case "touched":
				_, err = f.Touch(ctx, key, m, driver.Life{ExpiresAt: f.Began.Add(20 * day)}, f.Began)
			case "overwritten":
				_, err = f.Replace(ctx, key, "w", m, driver.Life{}, f.Began)
			}
			ok(t, err)
		}
		return next()
	}}
	o := applied()
	o.Segments, o.Writers = 1, 1
	r, err := upkeep.Adopt(ctx, s, policy, o)
	ok(t, err)
	if r.Counts["vanished"] != 1 || r.Counts["already"] != 1 || r.Counts["adopted"] != 2 {
		t.Errorf("the report is\n%v", r)
	}
	if m := metaOf(f, "adopted"); m.Life != life {
		t.Errorf("what live traffic adopted was written over")
	}
	if m := metaOf(f, "touched"); m.CreatedAt == 0 || m.ExpiresAt != f.Began.Add(20*day) {
		t.Errorf("a record that was touched meanwhile has %v, %v", m.CreatedAt.Time(), m.ExpiresAt.Time())
	}
}

// A store that fails for a while, or answers late, costs attempts and nothing else.
func TestAdoptOutlastsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		f.Add("a", 0, 0)
		down := errors.New("down")
		var calls atomic.Int32
		s := spoilt{f, func(_ string, next func() (driver.Version, error)) (driver.Version, error) {
			switch calls.Add(1) {
			case 1, 2:
				return 0, down
			case 3:
				_, err := next()
				ok(t, err)
				return 0, fmt.Errorf("%w: %w", driver.ErrAmbiguous, down)
			}
			return next()
		}}
		r, err := upkeep.Adopt(t.Context(), s, policy, applied())
		ok(t, err)
		if r.Counts["adopted"] != 1 || calls.Load() != 4 {
			t.Errorf("after %d calls:\n%v", calls.Load(), r)
		}

		f.Add("b", 0, 0)
		began := time.Now()
		s.touch = func(string, func() (driver.Version, error)) (driver.Version, error) { return 0, down }
		var last upkeep.Checkpoint
		o := applied()
		o.Save = func(c upkeep.Checkpoint) error { last = c; return nil }
		r, err = upkeep.Adopt(t.Context(), s, policy, o)
		if err != nil || r.Failures["down"] != 1 || !last.Done() {
			t.Errorf("a record that is never written: %v, done %v\n%v", err, last.Done(), r)
		}
		if took := time.Since(began); took < 10*time.Second || took > time.Minute {
			t.Errorf("it took %v to give up", took)
		}
		locked := fmt.Errorf("%w: %w", driver.ErrLocked, down)
		s.touch = func(string, func() (driver.Version, error)) (driver.Version, error) { return 0, locked }
		r, err = upkeep.Adopt(t.Context(), s, policy, applied())
		ok(t, err)
		if r.Counts["locked"] != 1 {
			t.Errorf("of a locked record:\n%v", r)
		}
	})
}

// Many go at it at once, beside a store that reads the same records.
func TestAdoptTogether(t *testing.T) {
	f := open(t)
	const n = 3000
	for i := range n {
		f.Add(fmt.Sprint(i), 0, 0)
	}
	store, err := slidingttl.New[string](f.Driver, policy, nil)
	ok(t, err)
	done := make(chan error, 3)
	adopted := make([]int64, 2)
	for i := range adopted {
		go func() {
			r, err := upkeep.Adopt(t.Context(), f, policy, applied())
			adopted[i] = r.Counts["adopted"]
			done <- err
		}()
	}
	go func() {
		for i := range n {
			if _, err := store.Get(t.Context(), fmt.Sprint(i)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 3 {
		ok(t, <-done)
	}
	ok(t, store.Close(t.Context()))
	if sum := uint64(adopted[0]+adopted[1]) + store.Stats().Adopted; sum != n {
		t.Errorf("%d records were adopted %d times", n, sum)
	}
	r, err := survey.Audit(t.Context(), f, policy, nil)
	ok(t, err)
	if r.States[verdict.Slides].Count != n {
		t.Errorf("in the end:\n%v", r)
	}
}

// A run that was ended at any moment goes on from its checkpoint in another process, and
// leaves nothing out.
func TestAdoptResumes(t *testing.T) {
	f := open(t)
	const n = 400
	for i := range n {
		f.Add(fmt.Sprint(i), 0, 0)
	}
	var text []byte // the last checkpoint
	writes := 0
	for run := 0; ; run++ {
		if run > n {
			t.Fatal("it does not end")
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := 23
		s := spoilt{f, func(_ string, next func() (driver.Version, error)) (driver.Version, error) {
			if left--; left < 0 {
				cancel()
				return 0, context.Canceled
			}
			v, err := next()
			if err == nil {
				writes++
			}
			return v, err
		}}
		o := applied()
		o.Page, o.Segments, o.Writers = 10, 1, 1
		o.Save = func(c upkeep.Checkpoint) (err error) { text, err = json.Marshal(c); return err }
		if text != nil {
			o.Resume = new(upkeep.Checkpoint)
			ok(t, json.Unmarshal(text, o.Resume))
		}
		r, err := upkeep.Adopt(ctx, s, policy, o)
		cancel()
		if err == nil {
			if !r.Done || r.Records != n {
				t.Errorf("the last run:\n%v", r)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || r.Done {
			t.Fatalf("run %d: %v, done %v", run, err, r.Done)
		}
	}
	if writes != n {
		t.Errorf("%d records were written %d times", n, writes)
	}
	// A checkpoint is valid only for the operation that saved it.
	o := applied()
	o.Resume = new(upkeep.Checkpoint)
	ok(t, json.Unmarshal(text, o.Resume))
	other := policy
	other.IdleGrace = 20 * day
	if _, err := upkeep.Adopt(t.Context(), f, other, o); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a checkpoint of another policy: %v", err)
	}
	r, err := upkeep.Adopt(t.Context(), f, policy, o)
	ok(t, err)
	if r.Records != n || r.Counts["adopted"]+r.Counts["already"] != n {
		t.Errorf("a checkpoint of what is done:\n%v", r)
	}
}

// A created_at that no read takes for a time is none.
func TestAdoptFromLongAgo(t *testing.T) {
	f := open(t)
	f.Add("k", 0, 20*day)
	o := applied()
	o.Origin = upkeep.FromExpiry(70 * 365 * day)
	r, err := upkeep.Adopt(t.Context(), f, slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: slidingttl.NoCap}, o)
	ok(t, err)
	if r.Counts["no_origin"] != 1 || metaOf(f, "k").CreatedAt != 0 {
		t.Errorf("it has %+v\n%v", metaOf(f, "k"), r)
	}
}
