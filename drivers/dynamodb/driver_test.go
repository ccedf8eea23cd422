package dynamodb

import (
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestInsert(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	first := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	tbl.wire.want(t, "Insert", "PutItem")
	if e := tbl.mustGet(t, "k"); e.Value.User != "one" || e.Meta != first {
		t.Fatalf("Get after Insert: %+v, want %+v", e, first)
	}
	tbl.wire.want(t, "Get", "GetItem")

	last := first.ExpiresAt - 1
	version, err := tbl.Insert(ctx, "k", session{User: "two"}, lasting(time.Hour), last)
	wantConflict(t, "a live record", err, first)
	if version != 0 {
		t.Error("a failed Insert returned a version")
	}
	tbl.wire.want(t, "Insert over a live record", "PutItem")
	if e := tbl.mustGet(t, "k"); e.Value.User != "one" || e.Meta != first {
		t.Fatalf("a failed Insert changed the record to %+v", e)
	}

	// Dead to the millisecond, though DynamoDB still holds it.
	life := driver.Life{CreatedAt: first.ExpiresAt + 1, ExpiresAt: first.ExpiresAt.Add(time.Hour)}
	tbl.wire.reset()
	second := tbl.mustInsert(t, "k", session{User: "three"}, life, first.ExpiresAt)
	tbl.wire.want(t, "Insert over a dead record", "PutItem")
	if second.Version == first.Version {
		t.Error("the new record has the version of the old one")
	}
	if e := tbl.mustGet(t, "k"); e.Value.User != "three" || e.Meta != second {
		t.Fatalf("Get after Insert over a dead record: %+v, want %+v", e, second)
	}

	// A record that never expires is alive for ever.
	forever := tbl.mustInsert(t, "forever", session{}, driver.Life{CreatedAt: base}, base)
	_, err = tbl.Insert(ctx, "forever", session{}, lasting(time.Hour), base.Add(1e6*time.Hour))
	wantConflict(t, "a record that never expires", err, forever)
}

func TestReplace(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	_, err := tbl.Replace(ctx, "k", session{}, driver.Meta{Life: lasting(time.Minute), Version: 1}, lasting(time.Hour), base)
	wantNotFound(t, "an absent record", err)
	_, err = tbl.Replace(ctx, "k", session{}, driver.Meta{}, lasting(time.Hour), base)
	wantNotFound(t, "an absent record, thought to be another program's", err)
	if tbl.raw(t, "k") != nil {
		t.Fatal("Replace created a record")
	}
	tbl.wire.reset()

	m := tbl.mustInsert(t, "k", session{User: "one", Note: "kept by nobody"}, lasting(time.Minute), base)
	tbl.wire.reset()
	for what, was := range map[string]driver.Meta{
		"another created_at": {Life: driver.Life{CreatedAt: m.CreatedAt + 1, ExpiresAt: m.ExpiresAt}, Version: m.Version},
		"no created_at":      {Life: driver.Life{ExpiresAt: m.ExpiresAt}, Version: m.Version},
		"another expiry":     {Life: driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt + 1000}, Version: m.Version},
		"no expiry":          {Life: driver.Life{CreatedAt: m.CreatedAt}, Version: m.Version},
		"another version":    {Life: m.Life, Version: m.Version + 1},
		"no version":         {Life: m.Life},
	} {
		_, err := tbl.Replace(ctx, "k", session{User: "two"}, was, lasting(time.Hour), base)
		wantConflict(t, what, err, m)
		tbl.wire.want(t, what, "PutItem")
	}
	if e := tbl.mustGet(t, "k"); e.Value.User != "one" || e.Meta != m {
		t.Fatalf("a failed Replace changed the record to %+v", e)
	}
	_, err = tbl.Replace(ctx, "k", session{}, m, lasting(time.Hour), m.ExpiresAt)
	wantNotFound(t, "a dead record", err)

	tbl.wire.reset()
	life := driver.Life{CreatedAt: base, ExpiresAt: base.Add(time.Hour)}
	version, err := tbl.Replace(ctx, "k", session{User: "two"}, m, life, m.ExpiresAt-1)
	if err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Replace", "PutItem")
	want := driver.Entry[session]{Value: session{User: "two"}, Meta: driver.Meta{Life: life, Version: version}}
	if e := tbl.mustGet(t, "k"); e != want || version == m.Version {
		t.Fatalf("Get after Replace: %+v, want %+v", e, want)
	}
}

func TestTouch(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	_, err := tbl.Touch(ctx, "k", driver.Meta{Life: lasting(time.Minute)}, lasting(time.Hour), base)
	wantNotFound(t, "an absent record", err)
	_, err = tbl.Touch(ctx, "k", driver.Meta{}, lasting(time.Hour), base)
	wantNotFound(t, "an absent record, thought to be another program's", err)
	if tbl.raw(t, "k") != nil {
		t.Fatal("Touch made a ghost item")
	}

	m := tbl.mustInsert(t, "k", session{User: "one"}, lasting(time.Minute), base)
	tbl.wire.reset()
	for what, was := range map[string]driver.Life{
		"another created_at": {CreatedAt: m.CreatedAt + 1, ExpiresAt: m.ExpiresAt},
		"no created_at":      {ExpiresAt: m.ExpiresAt},
		"another expiry":     {CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt - 1000},
		"no expiry":          {CreatedAt: m.CreatedAt},
	} {
		_, err := tbl.Touch(ctx, "k", driver.Meta{Life: was, Version: m.Version}, lasting(time.Hour), base)
		wantConflict(t, what, err, m)
		tbl.wire.want(t, what, "UpdateItem")
	}
	_, err = tbl.Touch(ctx, "k", m, lasting(time.Hour), m.ExpiresAt)
	wantNotFound(t, "a dead record", err)
	if e := tbl.mustGet(t, "k"); e.Meta != m {
		t.Fatalf("a failed Touch changed the record to %+v", e)
	}

	// A value overwritten in the same life.
	version, err := tbl.Replace(ctx, "k", session{User: "two"}, m, m.Life, base)
	if err != nil {
		t.Fatal(err)
	}
	life := lasting(time.Hour)
	_, err = tbl.Touch(ctx, "k", m, life, base)
	m.Version = version
	wantConflict(t, "another version", err, m)

	tbl.wire.reset()
	got, err := tbl.Touch(ctx, "k", m, life, base)
	if err != nil || got != version {
		t.Fatalf("Touch: version %d, %v, want %d", got, err, version)
	}
	tbl.wire.want(t, "Touch", "UpdateItem")
	want := driver.Entry[session]{Value: session{User: "two"}, Meta: driver.Meta{Life: life, Version: version}}
	if e := tbl.mustGet(t, "k"); e != want {
		t.Fatalf("Get after Touch: %+v, want %+v", e, want)
	}

	// An expiry taken away, and given back.
	never := driver.Meta{Life: driver.Life{CreatedAt: base}, Version: version}
	if _, err := tbl.Touch(ctx, "k", want.Meta, never.Life, base); err != nil {
		t.Fatal(err)
	}
	if e := tbl.mustGet(t, "k"); e.Meta != never {
		t.Fatalf("Get of a record that never expires: %+v, want %+v", e.Meta, never)
	}
	if _, err := tbl.Touch(ctx, "k", never, life, base); err != nil {
		t.Fatal(err)
	}

	// Rounded up to seconds, should the caller not have done so.
	odd := driver.Life{CreatedAt: base, ExpiresAt: life.ExpiresAt + 1}
	if _, err := tbl.Touch(ctx, "k", want.Meta, odd, base); err != nil {
		t.Fatal(err)
	}
	if e := tbl.mustGet(t, "k"); e.ExpiresAt != life.ExpiresAt+1000 {
		t.Errorf("an expiry between seconds is stored as %d, want the next second, %d", e.ExpiresAt, life.ExpiresAt+1000)
	}
}

func TestDelete(t *testing.T) {
	tbl := open[session](t, nil)
	tbl.mustInsert(t, "k", session{}, lasting(time.Minute), base)
	tbl.wire.reset()
	for range 2 { // absent is no error
		if err := tbl.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		tbl.wire.want(t, "Delete", "DeleteItem")
		_, err := tbl.Get(t.Context(), "k")
		wantNotFound(t, "Get after Delete", err)
		tbl.wire.reset()
	}
}

func TestUpsertTakesOneTripOrTwo(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	plan := func(found *driver.Meta) (driver.Life, error) {
		if found == nil {
			return lasting(time.Minute), nil
		}
		return driver.Life{CreatedAt: found.CreatedAt, ExpiresAt: found.ExpiresAt.Add(time.Minute)}, nil
	}
	upsert := func(what string, known *driver.Meta, now driver.Instant, ops ...string) driver.Meta {
		t.Helper()
		m, err := driver.Upsert(ctx, tbl.Driver, "k", session{User: what}, known, plan, now)
		if err != nil {
			t.Fatal(err)
		}
		tbl.wire.want(t, what, ops...)
		if e := tbl.mustGet(t, "k"); e.Meta != m || e.Value.User != what {
			t.Fatalf("%s: %+v is stored, want %+v", what, e, m)
		}
		tbl.wire.reset()
		return m
	}
	first := upsert("new", nil, base, "PutItem")
	second := upsert("unknown", nil, base, "PutItem", "PutItem")
	third := upsert("known", &second, base, "PutItem")
	upsert("known wrongly", &first, base, "PutItem", "PutItem")
	if err := tbl.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	tbl.wire.reset()
	upsert("known, but gone", &third, base, "PutItem", "PutItem")
}

// TestRaces: of 64 writers that read the same record, one wins.
func TestRaces(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	const writers = 64
	race := func(what string, write func(i int) (driver.Meta, error)) driver.Meta {
		t.Helper()
		var wg sync.WaitGroup
		written := make([]driver.Meta, writers)
		errs := make([]error, writers)
		start := make(chan struct{})
		for i := range writers {
			wg.Go(func() {
				<-start
				written[i], errs[i] = write(i)
			})
		}
		close(start)
		wg.Wait()
		var won []int
		for i, err := range errs {
			if err == nil {
				won = append(won, i)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%s: %d writers won, want 1", what, len(won))
		}
		for i, err := range errs {
			if i != won[0] {
				wantConflict(t, what, err, written[won[0]])
			}
		}
		if e := tbl.mustGet(t, "k"); e.Meta != written[won[0]] {
			t.Fatalf("%s: %+v is stored, want %+v", what, e.Meta, written[won[0]])
		}
		return written[won[0]]
	}
	seconds := func(i int) time.Duration { return time.Duration(i) * time.Second }

	m := race("Insert", func(i int) (driver.Meta, error) {
		life := lasting(time.Minute + seconds(i))
		v, err := tbl.Insert(ctx, "k", session{}, life, base)
		return driver.Meta{Life: life, Version: v}, err
	})
	was := m
	m = race("Replace", func(i int) (driver.Meta, error) {
		life := lasting(time.Hour) // the version alone tells them apart
		v, err := tbl.Replace(ctx, "k", session{}, was, life, base)
		return driver.Meta{Life: life, Version: v}, err
	})
	was = m
	race("Touch", func(i int) (driver.Meta, error) {
		life := lasting(2*time.Hour + seconds(i))
		v, err := tbl.Touch(ctx, "k", was, life, base)
		return driver.Meta{Life: life, Version: v}, err
	})
}
