package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A value in a column of JSON is encoded by its own methods, those of its pointer too.
func TestJSONByPointer(t *testing.T) {
	type purse struct{ Total big.Int }
	var c codec[purse]
	args, err := c.encode(purse{*big.NewInt(17)})
	if err != nil || len(args) != 1 || args[0] != `{"Total":17}` {
		t.Errorf("%v, %v; want a text of JSON with 17", args, err)
	}
}

// fuse is a text whose Scan panics at one of them.
type fuse string

func (f fuse) Value() (sqldriver.Value, error) { return string(f), nil }

func (f *fuse) Scan(src any) error {
	switch s := src.(type) {
	case string:
		*f = fuse(s)
	case []byte:
		*f = fuse(s)
	}
	if *f == "blown" {
		panic("a Scan's bug")
	}
	return nil
}

// A Scan that panics is the error of its record, in each kind of read, and leaves the connection to others.
func TestScanThatPanics(t *testing.T) {
	type row struct {
		F fuse
		P *fuse
	}
	const hour = driver.Instant(time.Hour / time.Millisecond)
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		mustExec(t, db, dialect, "CREATE TABLE fuses (id VARCHAR(60) NOT NULL PRIMARY KEY, f VARCHAR(60), p VARCHAR(60), created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT)")
		d, err := New(db, dialect, "fuses", &Options[row]{Row: Row[row]{Columns: []string{"f", "p"}, Fields: func(r *row) []any { return []any{&r.F, &r.P} }}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := driver.Floor(d.Now())
		for _, key := range []string{"k", "l", "m"} {
			if _, err := d.Insert(t.Context(), key, row{"whole", map[string]*fuse{"m": new(fuse("whole"))}[key]}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, db, dialect, "UPDATE "+d.quoted()+" SET f = 'blown' WHERE id = 'k'")
		mustExec(t, db, dialect, "UPDATE "+d.quoted()+" SET p = 'blown' WHERE id = 'm'")
		db.SetMaxOpenConns(2)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for name, read := range map[string]func(context.Context) error{
			"Get":              func(ctx context.Context) error { _, err := d.Get(ctx, "k"); return err },
			"Get of a pointer": func(ctx context.Context) error { _, err := d.Get(ctx, "m"); return err },
			"GetMulti": func(ctx context.Context) error {
				found, err := d.GetMulti(ctx, []string{"k", "l"})
				if found["l"].Value != (row{"whole", nil}) {
					t.Errorf("GetMulti of the other: %+v", found["l"])
				}
				return err
			},
			"ReadTouch": func(ctx context.Context) error {
				_, _, err := d.ReadTouch(ctx, "k", nil, driver.Access{At: now, Keep: 2 * hour, Stored: 2 * hour, Most: 3 * hour, Step: time.Millisecond}, now)
				return err
			},
		} {
			ended := make(chan error, 1)
			go func() { ended <- read(ctx) }()
			var err error
			select {
			case err = <-ended:
			case <-time.After(time.Minute):
				t.Fatalf("%s does not end", name)
			}
			if _, told := errors.AsType[*driver.PanicError](err); !told || !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := d.Replace(ctx, "l", row{"other", new(fuse("other"))}, d.mustGet(t, "l").Meta, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
			t.Errorf("Replace of the other: %v", err)
		}
		if got := d.mustGet(t, "l").Value; got.F != "other" || got.P == nil || *got.P != "other" {
			t.Errorf("Get of the other: %+v", got)
		}
	})
}
