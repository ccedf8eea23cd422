package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// open returns a driver that the test closes.
func open[T any](t testing.TB, opts *Options[T]) *Driver[T] {
	t.Helper()
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// bubble runs f on virtual time with a driver of its own, which is closed after it.
// The bubble fails if Close leaves a goroutine.
func bubble[T any](t *testing.T, opts *Options[T], f func(t *testing.T, d *Driver[T])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, open(t, opts)) })
}

func (d *Driver[T]) instant() driver.Instant { return d.clock.instant() }

// lasting returns the life of a record created at now that expires after ttl.
func lasting(now driver.Instant, ttl time.Duration) driver.Life {
	return driver.Life{CreatedAt: now, ExpiresAt: now.Add(ttl)}
}

func mustInsert[T any](t testing.TB, d *Driver[T], key string, v T, life driver.Life) driver.Meta {
	t.Helper()
	version, err := d.Insert(t.Context(), key, v, life, d.instant())
	if err != nil {
		t.Fatal(err)
	}
	return driver.Meta{Life: life, Version: version}
}

func mustGet[T any](t testing.TB, d *Driver[T], key string) driver.Entry[T] {
	t.Helper()
	e, err := d.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// wantGone fails if key is held in any state.
func wantGone[T any](t testing.TB, d *Driver[T], key string) {
	t.Helper()
	if _, err := d.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get: error %v, want ErrNotFound", err)
	}
}

func wantConflict(t testing.TB, what string, err error, found driver.Meta) {
	t.Helper()
	var conflict *driver.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("%s: error %v, want a ConflictError", what, err)
	}
	if conflict.Found != found {
		t.Errorf("%s: conflict with %+v, want %+v", what, conflict.Found, found)
	}
}

func wantInvalid(t testing.TB, err error, field string) {
	t.Helper()
	var invalid *driver.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("error %v, want an InvalidError", err)
	}
	if invalid.Field != field {
		t.Errorf("field %q, want %q", invalid.Field, field)
	}
}

func TestInsert(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		now := d.instant()
		first := mustInsert(t, d, "k", "one", lasting(now, time.Second))
		if e := mustGet(t, d, "k"); e.Value != "one" || e.Meta != first {
			t.Fatalf("Get after Insert: %+v", e)
		}

		_, err := d.Insert(t.Context(), "k", "two", lasting(now, time.Hour), now+999)
		wantConflict(t, "a live record", err, first)
		if e := mustGet(t, d, "k"); e.Value != "one" || e.Meta != first {
			t.Fatalf("a failed Insert changed the record to %+v", e)
		}

		// Dead by the caller's time, though the driver still holds it.
		life := lasting(now+1000, time.Hour)
		version, err := d.Insert(t.Context(), "k", "three", life, now+1000)
		if err != nil {
			t.Fatal(err)
		}
		if version == first.Version {
			t.Error("the new record has the version of the old one")
		}
		if e := mustGet(t, d, "k"); e.Value != "three" || e.Meta != (driver.Meta{Life: life, Version: version}) {
			t.Fatalf("Get after Insert over a dead record: %+v", e)
		}
		if n := d.Len(); n != 1 {
			t.Errorf("Len %d, want 1", n)
		}
	})
}

func TestVersionsNeverRepeat(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		seen := map[driver.Version]bool{0: true}
		now := d.instant()
		for range 100 { // virtual time stands still
			m := mustInsert(t, d, "k", 1, lasting(now, time.Minute))
			version, err := d.Replace(t.Context(), "k", 1, m, m.Life, now)
			if err != nil {
				t.Fatal(err)
			}
			if seen[m.Version] || seen[version] || m.Version == version {
				t.Fatalf("version %d or %d was given before", m.Version, version)
			}
			seen[m.Version], seen[version] = true, true
			if err := d.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReplace(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		ctx, now := t.Context(), d.instant()
		if _, err := d.Replace(ctx, "k", "x", driver.Meta{}, driver.Life{}, now); !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("Replace of nothing: %v, want ErrNotFound", err)
		}
		was := mustInsert(t, d, "k", "one", lasting(now, time.Minute))
		for name, other := range map[string]driver.Meta{
			"created_at": {Life: driver.Life{CreatedAt: was.CreatedAt - 1, ExpiresAt: was.ExpiresAt}, Version: was.Version},
			"expiry":     {Life: driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + 1}, Version: was.Version},
			"version":    {Life: was.Life, Version: was.Version + 1},
		} {
			_, err := d.Replace(ctx, "k", "two", other, lasting(now, time.Hour), now)
			wantConflict(t, "another "+name, err, was)
		}
		if _, err := d.Replace(ctx, "k", "two", was, lasting(now, time.Hour), was.ExpiresAt); !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("Replace of a dead record: %v, want ErrNotFound", err)
		}
		if e := mustGet(t, d, "k"); e.Value != "one" || e.Meta != was {
			t.Fatalf("failed Replaces changed the record to %+v", e)
		}
		life := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + 1}
		version, err := d.Replace(ctx, "k", "two", was, life, was.ExpiresAt-1)
		if err != nil {
			t.Fatal(err)
		}
		if e := mustGet(t, d, "k"); e.Value != "two" || e.Life != life || e.Version != version || version == was.Version {
			t.Fatalf("Get after Replace: %+v", e)
		}
	})
}

func TestTouch(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		ctx, now := t.Context(), d.instant()
		if _, err := d.Touch(ctx, "k", driver.Meta{}, lasting(now, time.Minute), now); !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("Touch of nothing: %v, want ErrNotFound", err)
		}
		wantGone(t, d, "k")

		was := mustInsert(t, d, "k", "one", lasting(now, time.Minute))
		later := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + 1}
		for name, other := range map[string]driver.Life{
			"created_at": {CreatedAt: was.CreatedAt - 1, ExpiresAt: was.ExpiresAt},
			"expiry":     {CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt - 1},
		} {
			_, err := d.Touch(ctx, "k", driver.Meta{Life: other, Version: was.Version}, later, now)
			wantConflict(t, "another "+name, err, was)
		}
		if _, err := d.Touch(ctx, "k", was, later, was.ExpiresAt); !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("Touch of a dead record: %v, want ErrNotFound", err)
		}
		if e := mustGet(t, d, "k"); e.Meta != was {
			t.Fatalf("failed Touches changed the record to %+v", e)
		}

		// A value written in between, in the same life, is a conflict.
		version, err := d.Replace(ctx, "k", "two", was, was.Life, now)
		if err != nil {
			t.Fatal(err)
		}
		second := driver.Meta{Life: was.Life, Version: version}
		_, err = d.Touch(ctx, "k", was, later, now)
		wantConflict(t, "another version", err, second)
		touched, err := d.Touch(ctx, "k", second, later, now)
		if err != nil {
			t.Fatal(err)
		}
		if e := mustGet(t, d, "k"); e.Value != "two" || e.Life != later || e.Version != touched || touched != version {
			t.Fatalf("Get after Touch: %+v", e)
		}
	})
}

func TestRemove(t *testing.T) {
	reported := 0
	opts := &Options[string]{OnExpiry: func(string, driver.Entry[string], Reason) { reported++ }, MaxEntries: 1}
	bubble(t, opts, func(t *testing.T, d *Driver[string]) {
		ctx, now := t.Context(), d.instant()
		if err := d.Remove(ctx, "k", driver.Meta{}, now); !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("Remove of nothing: %v, want ErrNotFound", err)
		}
		first := mustInsert(t, d, "k", "one", lasting(now, time.Minute))
		version, err := d.Replace(ctx, "k", "two", first, first.Life, now)
		if err != nil {
			t.Fatal(err)
		}
		second := driver.Meta{Life: first.Life, Version: version}
		wantConflict(t, "another version", d.Remove(ctx, "k", first, now), second)
		if err := d.Remove(ctx, "k", second, second.ExpiresAt); !errors.Is(err, driver.ErrNotFound) {
			t.Fatalf("Remove of a dead record: %v, want ErrNotFound", err)
		}
		mustGet(t, d, "k")
		if err := d.Remove(ctx, "k", second, now); err != nil {
			t.Fatal(err)
		}
		wantGone(t, d, "k")
		if n := linked(d); n != 0 {
			t.Errorf("the wheel holds %d records", n)
		}
		mustInsert(t, d, "another", "there is room again", driver.Life{})
		time.Sleep(time.Hour)
		if reported != 0 {
			t.Errorf("OnExpiry was reported of what was removed")
		}
	})
}

func TestTouchAdopts(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		ctx := t.Context()
		was := mustInsert(t, d, "k", "old", driver.Life{})
		time.Sleep(1000 * time.Hour)
		if e := mustGet(t, d, "k"); e.Meta != was {
			t.Fatalf("a record without an expiry is %+v after 1000 hours", e)
		}
		now := d.instant()
		life := lasting(now, time.Minute)
		version, err := d.Touch(ctx, "k", was, life, now)
		if err != nil {
			t.Fatal(err)
		}
		if e := mustGet(t, d, "k"); e.Value != "old" || e.Life != life || e.Version != version {
			t.Fatalf("Get after adoption: %+v", e)
		}
		_, err = d.Touch(ctx, "k", was, life, now) // planned before the adoption
		wantConflict(t, "an adopted record", err, driver.Meta{Life: life, Version: version})
		time.Sleep(time.Minute + sweepStep)
		wantGone(t, d, "k")
	})
}

func TestTouchFromAndToNever(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		now := d.instant()
		was := mustInsert(t, d, "k", "v", lasting(now, time.Minute))
		never := driver.Life{CreatedAt: was.CreatedAt}
		version, err := d.Touch(t.Context(), "k", was, never, now)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		was = driver.Meta{Life: never, Version: version}
		if e := mustGet(t, d, "k"); e.Meta != was {
			t.Fatalf("after its former expiry the record is %+v", e)
		}
		now = d.instant()
		if _, err = d.Touch(t.Context(), "k", was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: now + 10}, now); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Millisecond + sweepStep)
		wantGone(t, d, "k")
	})
}

func TestUpsert(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		ctx, now := t.Context(), d.instant()
		var shown []*driver.Meta
		expires := now + 1000
		plan := func(found *driver.Meta) (driver.Life, error) {
			shown = append(shown, found)
			if found == nil {
				return driver.Life{CreatedAt: now, ExpiresAt: expires}, nil
			}
			return driver.Life{CreatedAt: found.CreatedAt, ExpiresAt: expires}, nil
		}
		first, err := d.Upsert(ctx, "k", "one", &driver.Meta{Version: 99}, plan, now)
		if err != nil {
			t.Fatal(err)
		}
		expires = now + 2000
		second, err := d.Upsert(ctx, "k", "two", nil, plan, now)
		if err != nil {
			t.Fatal(err)
		}
		if e := mustGet(t, d, "k"); e.Value != "two" || e.Meta != second {
			t.Fatalf("Get after the second Upsert: %+v, want %+v", e, second)
		}
		now += 5000 // dead
		expires = now + 1000
		third, err := d.Upsert(ctx, "k", "three", &second, plan, now)
		if err != nil {
			t.Fatal(err)
		}
		if third.CreatedAt != now {
			t.Errorf("the upsert after expiry kept created_at")
		}
		if len(shown) != 3 || shown[0] != nil || *shown[1] != first || shown[2] != nil {
			t.Errorf("plan was shown %v, want nothing, %+v, nothing", shown, first)
		}

		refused := errors.New("refused")
		_, err = d.Upsert(ctx, "k", "four", nil, func(*driver.Meta) (driver.Life, error) { return driver.Life{}, refused }, now)
		if err != refused {
			t.Errorf("error %v, want the plan's own", err)
		}
		if e := mustGet(t, d, "k"); e.Value != "three" || e.Meta != third {
			t.Errorf("a refused Upsert changed the record to %+v", e)
		}
	})
}

// TestUpsertPlansAgain: a plan that is overtaken by another writer is asked again,
// with what that writer left.
func TestUpsertPlansAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		ctx, now := t.Context(), d.instant()
		life := lasting(now, time.Minute)
		for name, overtake := range map[string]func(found *driver.Meta) error{
			"insert": func(*driver.Meta) error {
				_, err := d.Insert(ctx, "insert", 1, life, now)
				return err
			},
			"touch": func(found *driver.Meta) error {
				_, err := d.Touch(ctx, "touch", *found, driver.Life{CreatedAt: now, ExpiresAt: found.ExpiresAt + 1}, now)
				return err
			},
			"replace": func(found *driver.Meta) error {
				_, err := d.Replace(ctx, "replace", 2, *found, found.Life, now)
				return err
			},
			"delete": func(*driver.Meta) error { return d.Delete(ctx, "delete") },
		} {
			if name != "insert" {
				mustInsert(t, d, name, 1, life)
			}
			var shown []*driver.Meta
			var left *driver.Meta
			m, err := d.Upsert(ctx, name, 3, nil, func(found *driver.Meta) (driver.Life, error) {
				shown = append(shown, found)
				if len(shown) == 1 {
					if err := overtake(found); err != nil {
						t.Error(err)
					}
					if e, err := d.Get(ctx, name); err == nil {
						left = &e.Meta
					}
				}
				return driver.Life{CreatedAt: now, ExpiresAt: now + driver.Instant(1000*len(shown))}, nil
			}, now)
			if err != nil {
				t.Fatal(err)
			}
			if len(shown) != 2 || !same(shown[1], left) {
				t.Fatalf("%s: plan was shown %v, want %v the second time", name, shown, left)
			}
			if e := mustGet(t, d, name); e.Value != 3 || e.Meta != m || m.ExpiresAt != now+2000 {
				t.Errorf("%s: the record is %+v, want %+v", name, e, m)
			}
		}

		// The second answer may also be no.
		refused := errors.New("refused")
		_, err := d.Upsert(ctx, "new", 3, nil, func(found *driver.Meta) (driver.Life, error) {
			if found != nil {
				return driver.Life{}, refused
			}
			mustInsert(t, d, "new", 1, life)
			return life, nil
		}, now)
		if err != refused || mustGet(t, d, "new").Value != 1 {
			t.Errorf("error %v, want the plan's own", err)
		}
	})
}

// TestPlanPanicLeavesNoLock: neither at the first asking nor at the second.
func TestPlanPanicLeavesNoLock(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		now := d.instant()
		m := mustInsert(t, d, "k", 1, lasting(now, time.Minute))
		for _, at := range []int{1, 2} {
			asked := 0
			func() {
				defer func() {
					if p := recover(); p != "plan" {
						t.Errorf("recovered %v, want the plan's own panic", p)
					}
				}()
				_, _ = d.Upsert(t.Context(), "k", 2, nil, func(*driver.Meta) (driver.Life, error) {
					if asked++; asked == at {
						panic("plan")
					}
					version, err := d.Replace(t.Context(), "k", 3, m, m.Life, now)
					m.Version = version
					return m.Life, err
				}, now)
			}()
			version, err := d.Replace(t.Context(), "k", 4, m, m.Life, now)
			if err != nil || asked != at {
				t.Fatalf("after a panic at asking %d of %d: %v", asked, at, err)
			}
			m.Version = version
		}
	})
}

func TestDelete(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[string]) {
		ctx := t.Context()
		if err := d.Delete(ctx, "k"); err != nil {
			t.Fatalf("Delete of nothing: %v", err)
		}
		mustInsert(t, d, "k", "v", lasting(d.instant(), time.Minute))
		if err := d.Delete(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		wantGone(t, d, "k")
		if n := d.Len(); n != 0 {
			t.Errorf("Len %d, want 0", n)
		}
	})
}

func TestBadInput(t *testing.T) {
	d := open[int](t, nil)
	ctx := t.Context()
	plan := func(*driver.Meta) (driver.Life, error) { return driver.Life{}, nil }
	for name, call := range map[string]func() error{
		"Get":     func() error { _, err := d.Get(ctx, ""); return err },
		"Insert":  func() error { _, err := d.Insert(ctx, "", 1, driver.Life{}, 1); return err },
		"Replace": func() error { _, err := d.Replace(ctx, "", 1, driver.Meta{}, driver.Life{}, 1); return err },
		"Touch":   func() error { _, err := d.Touch(ctx, "", driver.Meta{}, driver.Life{}, 1); return err },
		"Upsert":  func() error { _, err := d.Upsert(ctx, "", 1, nil, plan, 1); return err },
		"Delete":  func() error { return d.Delete(ctx, "") },
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, call(), "key") })
	}
	if n := d.Len(); n != 0 {
		t.Errorf("Len %d, want 0", n)
	}
}

func TestOptions(t *testing.T) {
	hook := func(string, driver.Entry[int], Reason) {}
	for _, tt := range []struct {
		opts  Options[int]
		field string
	}{
		{Options[int]{MaxEntries: -1}, "Options.MaxEntries"},
		{Options[int]{MaxLifetime: -1, OnExpiry: hook}, "Options.MaxLifetime"},
		{Options[int]{MaxLifetime: time.Hour}, "Options.MaxLifetime"},
	} {
		d, err := New(&tt.opts)
		if d != nil {
			t.Errorf("%+v: a driver with an error", tt.opts)
		}
		wantInvalid(t, err, tt.field)
	}

	opts := &Options[int]{MaxEntries: 1}
	d := open(t, opts)
	opts.MaxEntries = 0
	mustInsert(t, d, "a", 1, driver.Life{})
	if _, err := d.Insert(t.Context(), "b", 1, driver.Life{}, 1); !errors.Is(err, driver.ErrFull) {
		t.Errorf("error %v, want ErrFull: Options must be copied", err)
	}
}

// TestCosts: what the package comment says of sizes and allocations.
func TestCosts(t *testing.T) {
	// Two pointers are half as long on a machine of 32 bits.
	want := map[int]uintptr{64: 128, 32: 120}[strconv.IntSize]
	if n := unsafe.Sizeof(keyed[[64]byte, [16]byte]{}); n != want {
		t.Errorf("a record of 64 bytes and its key take %d, want %d", n, want)
	}
	keyFollows[struct{}](t)
	keyFollows[byte](t)
	keyFollows[[3]uint16](t)
	keyFollows[string](t)
	d := open[[64]byte](t, nil)
	ctx, now := t.Context(), d.instant()
	m := mustInsert(t, d, "k", [64]byte{}, lasting(now, time.Hour))
	for name, call := range map[string]func() error{
		"Get": func() error { _, err := d.Get(ctx, "k"); return err },
		"Touch": func() error {
			life := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt + 1}
			_, err := d.Touch(ctx, "k", m, life, now)
			m.Life = life
			return err
		},
		"Bounds": func() error { d.Bounds(); return nil },
		"Delete": func() error { return d.Delete(ctx, "none") },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}

// keyFollows checks what record.behind relies on.
func keyFollows[T any](t *testing.T) {
	end := unsafe.Sizeof(record[T]{})
	if at := unsafe.Offsetof(keyed[T, [16]byte]{}.key); at != end {
		t.Errorf("%T: a short key is at %d, want %d", *new(T), at, end)
	}
	if at := unsafe.Offsetof(keyed[T, string]{}.key); at != end {
		t.Errorf("%T: a long key is at %d, want %d", *new(T), at, end)
	}
}

// TestKeyIsCopied: a key is kept with its record where it is short, else apart.
func TestKeyIsCopied(t *testing.T) {
	d := open[int](t, nil)
	request := strings.Repeat("x", 1<<10)
	for _, n := range []int{1, 15, 16, 17, 32, 33, 48, 49, 1000} {
		token := request[:n]
		mustInsert(t, d, token, 1, driver.Life{})
		m := mustGet(t, d, token).Meta
		if _, err := d.Replace(t.Context(), token, 2, m, m.Life, 1); err != nil {
			t.Fatal(err)
		}
		if kept := d.records.load(token).key(); kept != token || unsafe.StringData(kept) == unsafe.StringData(token) {
			t.Errorf("%d bytes: the driver keeps the caller's string alive", n)
		}
		if e := mustGet(t, d, token); e.Value != 2 || e.CreatedAt != m.CreatedAt {
			t.Errorf("%d bytes: got %+v after a replace", n, e)
		}
	}
}

// TestErrorsHoldNoKey: keys are often session tokens.
func TestErrorsHoldNoKey(t *testing.T) {
	const key = "secret-token"
	d := open(t, &Options[int]{MaxEntries: 1})
	ctx, now := t.Context(), d.instant()
	m := mustInsert(t, d, key, 1, lasting(now, time.Hour))
	other := driver.Meta{Life: m.Life, Version: m.Version + 1}
	var errs []error
	_, err := d.Insert(ctx, key, 1, m.Life, now)
	errs = append(errs, err)
	_, err = d.Insert(ctx, key+"2", 1, m.Life, now)
	errs = append(errs, err)
	_, err = d.Replace(ctx, key, 1, other, m.Life, now)
	errs = append(errs, err)
	_, err = d.Get(ctx, key+"2")
	errs = append(errs, err)
	for _, err := range errs {
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), key) {
			t.Errorf("error %v is nil or holds the key", err)
		}
	}
}

func TestMaxEntries(t *testing.T) {
	bubble(t, &Options[int]{MaxEntries: 3}, func(t *testing.T, d *Driver[int]) {
		ctx, now := t.Context(), d.instant()
		mustInsert(t, d, "dying", 1, lasting(now, time.Second))
		mustInsert(t, d, "touched", 1, lasting(now, time.Second))
		mustInsert(t, d, "never", 1, driver.Life{CreatedAt: now})
		full := func(why string) {
			t.Helper()
			if _, err := d.Insert(ctx, "more", 1, lasting(d.instant(), time.Hour), d.instant()); !errors.Is(err, driver.ErrFull) {
				t.Fatalf("%s: error %v, want ErrFull", why, err)
			}
		}
		full("three live records")
		m := mustGet(t, d, "touched").Meta
		if _, err := d.Touch(ctx, "touched", m, lasting(now, time.Hour), now); err != nil {
			t.Fatal(err)
		}
		// Overwriting is no new record.
		m = mustGet(t, d, "touched").Meta
		if _, err := d.Replace(ctx, "touched", 2, m, m.Life, now); err != nil {
			t.Fatal(err)
		}
		// No sweep comes to the record before the insert does: both happen in the
		// millisecond in which it dies, which is not one that sweeps begin at.
		time.Sleep(time.Second)
		if now = d.instant(); now%driver.Instant(sweepStep/time.Millisecond) == 0 {
			t.Fatal("the test's instant is one that sweeps begin at")
		}
		if n := d.Len(); n != 3 {
			t.Fatalf("Len %d, want 3: the dead record must still be there", n)
		}
		mustInsert(t, d, "new", 1, lasting(now, time.Hour))
		wantGone(t, d, "dying")
		full("one died and one came")
		for _, key := range []string{"touched", "never", "new"} {
			mustGet(t, d, key)
		}
		if err := d.Delete(ctx, "never"); err != nil {
			t.Fatal(err)
		}
		mustInsert(t, d, "other", 1, lasting(now, time.Hour))
		full("one was deleted and one came")
		time.Sleep(time.Hour + sweepStep)
		if n, count := d.Len(), d.count.Load(); n != 0 || count != 0 {
			t.Errorf("Len %d, count %d; want 0, 0", n, count)
		}
	})
}

// TestMaxEntriesOverDead: a new life in a dead record's place needs no room.
func TestMaxEntriesOverDead(t *testing.T) {
	bubble(t, &Options[int]{MaxEntries: 1}, func(t *testing.T, d *Driver[int]) {
		for range 3 {
			mustInsert(t, d, "k", 1, lasting(d.instant(), time.Second))
			time.Sleep(time.Second)
		}
		mustInsert(t, d, "k", 1, lasting(d.instant(), time.Second))
		if n := d.count.Load(); n != 1 {
			t.Errorf("count %d, want 1", n)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New[int](nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, now := context.Background(), d.instant()
		m := mustInsert(t, d, "k", 1, lasting(now, time.Hour))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		plan := func(*driver.Meta) (driver.Life, error) { return m.Life, nil }
		for name, call := range map[string]func() error{
			"Get":     func() error { _, err := d.Get(ctx, "k"); return err },
			"Insert":  func() error { _, err := d.Insert(ctx, "k", 1, m.Life, now); return err },
			"Replace": func() error { _, err := d.Replace(ctx, "k", 1, m, m.Life, now); return err },
			"Touch":   func() error { _, err := d.Touch(ctx, "k", m, m.Life, now); return err },
			"Upsert":  func() error { _, err := d.Upsert(ctx, "k", 1, nil, plan, now); return err },
			"Delete":  func() error { return d.Delete(ctx, "k") },
		} {
			if err := call(); !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: error %v, want ErrClosed", name, err)
			}
		}
		if n := d.Len(); n != 0 {
			t.Errorf("Len after Close: %d, want 0", n)
		}
		if at := d.wheel.next(); at != driver.MaxInstant {
			t.Error("the wheel holds records after Close")
		}
		if earliest, latest := d.Bounds(); earliest > driver.Floor(d.Now()) || latest < driver.Ceil(d.Now()) {
			t.Errorf("Bounds after Close: %d to %d at %v", earliest, latest, d.Now())
		}
	})
}
