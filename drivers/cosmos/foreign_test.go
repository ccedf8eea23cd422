package cosmos

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The record of an item, in all forms that other programs may have written.
func TestItemsOfOthers(t *testing.T) {
	at := base.Add(time.Hour)
	for name, tt := range map[string]struct {
		fields string
		want   driver.Life
		odd    string // the property that cannot be read
	}{
		"nothing":                  {fields: ``},
		"nulls":                    {fields: `,"created_at":null,"expires_at":null,"ttl":null`},
		"empty":                    {fields: `,"created_at":"","expires_at":""`},
		"ttl":                      {fields: `,"ttl":3600`, want: driver.Life{ExpiresAt: at}},
		"ttl never":                {fields: `,"ttl":-1`},
		"ttl beside an expiry":     {fields: `,"ttl":60,"expires_at":"2026-03-01T13:00:00Z"`, want: driver.Life{ExpiresAt: at}},
		"another zone":             {fields: `,"created_at":"2026-03-01T14:00:00+02:00","expires_at":"2026-03-01T15:00:00+02:00"`, want: driver.Life{CreatedAt: base, ExpiresAt: at}},
		"finer than milliseconds":  {fields: `,"created_at":"2026-03-01T12:00:00.0009Z","expires_at":"2026-03-01T12:59:59.9991Z"`, want: driver.Life{CreatedAt: base, ExpiresAt: at}},
		"seconds":                  {fields: `,"created_at":1772366400,"expires_at":1772370000`, want: driver.Life{CreatedAt: base, ExpiresAt: at}},
		"seconds and a fraction":   {fields: `,"created_at":1772366400.001,"expires_at":1772370000.25`, want: driver.Life{CreatedAt: base + 1, ExpiresAt: at + 250}},
		"milliseconds":             {fields: `,"created_at":1772366400000,"expires_at":1772370000000`, want: driver.Life{CreatedAt: base, ExpiresAt: at}},
		"an expiry that is a word": {fields: `,"expires_at":"soon"`, odd: "expires_at"},
		"created_at of a bool":     {fields: `,"created_at":true`, odd: "created_at"},
		"negative":                 {fields: `,"expires_at":-5`, odd: "expires_at"},
		"microseconds":             {fields: `,"expires_at":1772370000000000`, odd: "expires_at"},
	} {
		t.Run(name, func(t *testing.T) {
			f := open[session](t, nil)
			f.put(t, "k", `{"id":"k","user":"ann"`+tt.fields+`}`)
			e, err := f.Get(t.Context(), "k")
			if tt.odd != "" {
				wantInvalid(t, "Get", err, `property "`+tt.odd+`"`, "must be RFC 3339")
				return
			}
			if err != nil || e.Life != tt.want || e.Value.User != "ann" {
				t.Fatalf("Get returns %+v, %v, want the life %+v", e, err, tt.want)
			}
			life := lasting(2 * time.Hour)
			version, err := f.Touch(t.Context(), "k", e.Meta, life, base)
			if err != nil {
				t.Fatalf("adopting it: %v", err)
			}
			if got, want := f.mustGet(t, "k"), (driver.Meta{Life: life, Version: version}); got.Meta != want || got.Value != e.Value {
				t.Errorf("after its adoption Get returns %+v, want %+v", got, want)
			}
			if again := f.during(func() {
				if _, err := f.Touch(t.Context(), "k", driver.Meta{Life: life, Version: version}, lasting(3*time.Hour), base); err != nil {
					t.Error(err)
				}
			}); again != (cosmostest.Counts{Patch: 1}) {
				t.Errorf("the next touch sent %+v, want one patch", again)
			}
		})
	}
}

// The service must remove an item at or after the expiry, and not long after, whatever its
// clock says and in whatever part of a second the write comes.
func TestTimeToLiveIsNeverEarly(t *testing.T) {
	for _, off := range []time.Duration{0, -26 * time.Hour, 3 * time.Hour} {
		for _, part := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
			f := open[session](t, nil)
			ours := base.Time().Add(part) // the caller's clock
			f.account.SetTime(ours.Add(off))
			now := driver.Floor(ours)
			life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(10 * time.Second).RoundUp(time.Second)}
			m := f.mustInsert(t, "k", session{}, life, now)
			check := func(what string, expiry driver.Instant) {
				t.Helper()
				f.account.SetTime(expiry.Time().Add(off + f.opts.MaxSkew - time.Millisecond))
				if f.raw(t, "k") == "" {
					t.Errorf("off by %v, %v into a second: %s is removed before its expiry and MaxSkew", off, part, what)
				}
				f.account.SetTime(expiry.Time().Add(off + f.opts.MaxSkew + 2*time.Second))
				if f.raw(t, "k") != "" {
					t.Errorf("off by %v, %v into a second: %s is there 2 s after its expiry and MaxSkew", off, part, what)
				}
				f.account.SetTime(ours.Add(off))
			}
			check("what was inserted", life.ExpiresAt)
			later := driver.Life{CreatedAt: now, ExpiresAt: life.ExpiresAt.Add(time.Hour)}
			version, err := f.Touch(t.Context(), "k", m, later, now)
			if err != nil {
				t.Fatal(err)
			}
			check("what was touched", later.ExpiresAt)
			if _, err := f.Replace(t.Context(), "k", session{}, driver.Meta{Life: later, Version: version}, life, now); err != nil {
				t.Fatal(err)
			}
			check("what was replaced", life.ExpiresAt)
		}
	}
}

// A write of another program restarts ttl: the item is removed later, but reads find it dead in
// time.
func TestForeignWriteRestartsTTL(t *testing.T) {
	f := open[session](t, nil)
	m := f.mustInsert(t, "k", session{User: "ann"}, lasting(time.Minute), base)
	f.account.Advance(50 * time.Second)
	f.put(t, "k", f.raw(t, "k")) // as another program would that changes a property
	if got := f.mustGet(t, "k"); got.Meta != m {
		t.Errorf("after the write the record is %+v, want %+v", got.Meta, m)
	}
	f.account.Advance(30 * time.Second)
	if f.raw(t, "k") == "" {
		t.Fatal("the item was removed: the test proves nothing")
	}
	now := driver.Floor(f.account.Now())
	if got := f.mustGet(t, "k"); got.Alive(now) {
		t.Error("the write prolonged the record's life")
	}
	_, err := f.Touch(t.Context(), "k", m, lasting(time.Hour), now)
	wantNotFound(t, "Touch of the dead record", err)
	_, err = f.Replace(t.Context(), "k", session{}, m, lasting(time.Hour), now)
	wantNotFound(t, "Replace of the dead record", err)
	wantNotFound(t, "Remove of the dead record", f.Remove(t.Context(), "k", m, now))
	counts := f.during(func() {
		if _, err := f.Insert(t.Context(), "k", session{User: "bob"}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
			t.Error(err)
		}
	})
	if want := (cosmostest.Counts{Create: 1, Read: 1, Replace: 1}); counts != want {
		t.Errorf("Insert over the dead record sent %+v, want %+v", counts, want)
	}
}

// Reads judge lives that a ttl cannot express.
func TestTimeToLiveOfLongLives(t *testing.T) {
	f := open[session](t, nil)
	for _, tt := range []struct {
		life driver.Life
		ttl  int64
	}{
		{driver.Life{CreatedAt: base}, -1},
		{lasting(100 * 365 * 24 * time.Hour), -1},
		{lasting(-time.Hour), 1},
		{lasting(time.Second), 3},
		{lasting(1500 * time.Millisecond), 4},
	} {
		if got := f.opts.ttl(tt.life, base); got != tt.ttl {
			t.Errorf("ttl of %+v at %d is %d, want %d", tt.life, base, got, tt.ttl)
		}
	}
	m := f.mustInsert(t, "k", session{}, driver.Life{CreatedAt: base}, base)
	if version, err := f.Touch(t.Context(), "k", m, lasting(time.Hour), base); err != nil {
		t.Error(err)
	} else if _, err := f.Touch(t.Context(), "k", driver.Meta{Life: lasting(time.Hour), Version: version}, driver.Life{CreatedAt: base}, base); err != nil {
		t.Error(err)
	}
	if got := f.mustGet(t, "k").Meta; got != m {
		t.Errorf("a record that was made to expire and then not to is %+v, want %+v", got, m)
	}
}

// A touch changes only the life. It costs a read and a patch more if the item has its instants
// in another form.
func TestTouchLeavesTheRest(t *testing.T) {
	f := open[session](t, nil)
	f.put(t, "k", `{"id":"k","user":"ann","theirs":{"a":[1,2]},"created_at":"2026-03-01T12:00:00Z","expires_at":1772370000,"slidingttl_version":7}`)
	e := f.mustGet(t, "k")
	if e.Version != 7 || e.Life != lasting(time.Hour) {
		t.Fatalf("Get returns %+v", e.Meta)
	}
	counts := f.during(func() {
		if _, err := f.Touch(t.Context(), "k", e.Meta, lasting(2*time.Hour), base); err != nil {
			t.Fatal(err)
		}
	})
	if want := (cosmostest.Counts{Patch: 2, Read: 1}); counts != want {
		t.Errorf("requests %+v, want %+v", counts, want)
	}
	if s := f.Stats(); s.Refused != 1 || s.Again != 1 {
		t.Errorf("Stats are %+v", s)
	}
	item := gjson.Parse(f.raw(t, "k"))
	for path, want := range map[string]string{
		"user": "ann", "theirs": `{"a":[1,2]}`, "slidingttl_version": "7", "ttl": "7202",
		"created_at": "2026-03-01T12:00:00.000Z", "expires_at": "2026-03-01T14:00:00.000Z",
	} {
		if got := item.Get(path).String(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// A record without a version is distinguished from what another program writes over it.
func TestOverwrittenByOthers(t *testing.T) {
	f := open[session](t, nil)
	f.put(t, "k", `{"id":"k","user":"ann"}`)
	was := f.mustGet(t, "k").Meta
	f.put(t, "k", `{"id":"k","user":"bob"}`)
	now := f.mustGet(t, "k").Meta
	if now.Version == was.Version {
		t.Fatal("the version of an item that was overwritten is the one it had")
	}
	for _, d := range []*Driver[session]{f.Driver, f.another(t)} {
		_, err := d.Touch(t.Context(), "k", was, lasting(time.Hour), base)
		wantConflict(t, "Touch", err, now)
		_, err = d.Replace(t.Context(), "k", session{}, was, lasting(time.Hour), base)
		wantConflict(t, "Replace", err, now)
		wantConflict(t, "Remove", d.Remove(t.Context(), "k", was, base), now)
	}
	if got := f.raw(t, "k"); !strings.Contains(got, "bob") {
		t.Errorf("the item is %s", got)
	}
}

// All combinations of the container's and the item's ttl, as the service and the driver treat
// them.
func TestContainerDefaults(t *testing.T) {
	for _, tt := range []struct {
		name       string
		container  *int32
		item       string
		gone, read bool // after 100 s: removed from the store; dead for a reader
	}{
		{"off, item 60", nil, `,"ttl":60`, false, true},
		{"off, item absent", nil, ``, false, false},
		{"on, item absent", to.Ptr[int32](-1), ``, false, false},
		{"on, item 60", to.Ptr[int32](-1), `,"ttl":60`, true, true},
		{"on, item never", to.Ptr[int32](-1), `,"ttl":-1`, false, false},
		{"60, item absent", to.Ptr[int32](60), ``, true, true},
		{"60, item null", to.Ptr[int32](60), `,"ttl":null`, true, true},
		{"60, item never", to.Ptr[int32](60), `,"ttl":-1`, false, false},
		{"60, item 200", to.Ptr[int32](60), `,"ttl":200`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			account := cosmostest.Start(t)
			f := openOn[session](t, account, nil)
			p := f.Properties("")
			p.DefaultTimeToLive = tt.container
			container := account.Container(t, p, impatient)
			f.Driver.client, f.container = container, container
			f.put(t, "k", `{"id":"k","user":"ann"`+tt.item+`}`)
			account.Advance(100 * time.Second)
			if gone := f.raw(t, "k") == ""; gone != tt.gone {
				t.Errorf("the item is gone: %t, want %t", gone, tt.gone)
			}
			e, err := f.Get(t.Context(), "k")
			if dead := err != nil || !e.Alive(driver.Floor(account.Now())); dead != tt.read {
				t.Errorf("Get returns %+v, %v; want it to be dead: %t", e, err, tt.read)
			}
		})
	}
}

// No read finds an expired item that Cosmos DB has not removed yet, but a create conflicts with
// it. Until it is gone, nothing can be written there, and no call reports it alive.
func TestInsertOverWhatIsToBeRemoved(t *testing.T) {
	f := open[session](t, nil)
	f.account.SetRemovalLag(time.Hour)
	f.mustInsert(t, "k", session{User: "dead"}, lasting(time.Minute), base)
	f.account.Advance(2 * time.Minute)
	now := base.Add(2 * time.Minute)
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	var conflict *driver.ConflictError
	_, err := f.Insert(t.Context(), "k", session{User: "new"}, life, now)
	if !errors.Is(err, driver.ErrConflict) || errors.As(err, &conflict) || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("Insert: error %v, want ErrConflict, and no record with it", err)
	}
	_, err = f.Upsert(t.Context(), "k", session{User: "new"}, nil, func(*driver.Meta) (driver.Life, error) { return life, nil }, now)
	if !errors.Is(err, driver.ErrConflict) || errors.As(err, &conflict) || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("Upsert: error %v, want ErrConflict, and no record with it", err)
	}
	f.account.Advance(time.Hour)
	if _, err := f.Insert(t.Context(), "k", session{User: "new"}, life, now); err != nil {
		t.Errorf("Insert when it is gone: %v", err)
	}
}
