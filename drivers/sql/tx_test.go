package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestWithTx: writes in a transaction exist only once it is committed. Reads in it see them and
// make no touches, and the store remembers nothing of it.
func TestWithTx(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		do := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		user := func(ctx context.Context, key, want string) {
			t.Helper()
			s, err := store.Get(ctx, key)
			switch {
			case want == "" && !errors.Is(err, slidingttl.ErrNotFound):
				t.Errorf("%s: %+v, %v; want none", key, s, err)
			case want != "" && (err != nil || s.User != want):
				t.Errorf("%s: %+v, %v; want %s", key, s, err, want)
			}
		}
		ctx := t.Context()
		for _, commit := range []bool{false, true} {
			for _, key := range []string{"updated", "deleted", "upserted"} {
				do("Upsert", store.Upsert(ctx, key, session{"old"}))
			}
			before, err := d.Get(ctx, "deleted")
			do("Get", err)
			tx, err := db.BeginTx(ctx, nil)
			do("Begin", err)
			in := WithTx(ctx, tx)
			do("Insert", store.Insert(in, "inserted", session{"new"}))
			do("Upsert", store.Upsert(in, "upserted", session{"new"}))
			_, err = store.Update(in, "updated", func(session) (session, error) { return session{"new"}, nil })
			do("Update", err)
			user(in, "deleted", "old")
			all, err := store.GetMulti(in, []string{"deleted", "inserted"})
			if err != nil || len(all) != 2 {
				t.Errorf("GetMulti: %v, %v", all, err)
			}
			if _, err := store.Touch(in, "deleted"); err != nil {
				t.Errorf("Touch: %v", err)
			}
			if e, err := d.Get(in, "deleted"); err != nil || e.Meta != before.Meta {
				t.Errorf("after reads it is %+v, %v; want it untouched, %+v", e.Meta, err, before.Meta)
			}
			do("Delete", store.Delete(in, "deleted"))
			user(in, "inserted", "new")
			user(in, "updated", "new")
			user(in, "deleted", "")
			if dialect != SQLite { // the transaction holds its lock
				user(ctx, "inserted", "")
				user(ctx, "deleted", "old")
			}
			if !commit {
				do("Rollback", tx.Rollback())
				user(ctx, "inserted", "")
				user(ctx, "upserted", "old")
				user(ctx, "updated", "old")
				user(ctx, "deleted", "old")
				if err := store.Keep(ctx, "inserted"); !errors.Is(err, slidingttl.ErrNotFound) {
					t.Errorf("Keep of what was rolled back: %v", err)
				}
				continue
			}
			do("Commit", tx.Commit())
			user(ctx, "inserted", "new")
			user(ctx, "upserted", "new")
			user(ctx, "updated", "new")
			user(ctx, "deleted", "")
			if err := store.Keep(ctx, "deleted"); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Keep of what was deleted: %v", err)
			}
		}
	})
}

// TestBesideReferences: a row that a transaction has just referred to by a foreign key is touched and
// replaced without waiting for that transaction, as by a plain UPDATE on PostgreSQL.
func TestBesideReferences(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	d := open[session](t, db, PostgreSQL, nil)
	mustExec(t, db, PostgreSQL, "CREATE TABLE orders (session text REFERENCES "+d.quoted()+" (id))")
	const order = "INSERT INTO orders VALUES ('k')"
	store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ends a hang
	defer cancel()
	if err := store.Insert(ctx, "k", session{}); err != nil {
		t.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, order); err != nil {
		t.Fatal(err)
	}
	access := func(now driver.Instant, keep time.Duration) driver.Access {
		millis := driver.Instant(keep.Milliseconds())
		return driver.Access{At: now, Keep: millis, Stored: millis, Most: 24 * 3600e3, Step: time.Millisecond}
	}
	for name, write := range map[string]func(was driver.Meta, now driver.Instant) error{
		"a forward touch": func(was driver.Meta, now driver.Instant) error {
			_, err := d.Touch(ctx, "k", was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(time.Second)}, now)
			return err
		},
		"a touch back": func(was driver.Meta, now driver.Instant) error {
			_, err := d.Touch(ctx, "k", was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(-time.Second)}, now)
			return err
		},
		"a replace": func(was driver.Meta, now driver.Instant) error {
			_, err := d.Replace(ctx, "k", session{}, was, was.Life, now)
			return err
		},
		"a read that touches": func(was driver.Meta, now driver.Instant) error {
			e, touched, err := d.ReadTouch(ctx, "k", nil, access(now, 3*time.Hour), now)
			if err == nil && (!touched || e.Meta == was) {
				err = errors.New("has not touched")
			}
			return err
		},
		"an overwrite": func(was driver.Meta, now driver.Instant) error {
			_, err := d.Overwrite(ctx, "k", session{}, was.Life, access(now, 2*time.Hour), now)
			return err
		},
	} {
		if err := write(d.mustGet(t, "k").Meta, driver.Floor(d.Now())); err != nil {
			t.Errorf("%s beside an open transaction that refers to the row: %v", name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}

	// Two transactions at once order, and then update the session.
	var ordered, ended sync.WaitGroup
	ordered.Add(2)
	for range 2 {
		ended.Go(func() {
			tx, err := db.BeginTx(ctx, nil)
			if err == nil {
				defer func() { _ = tx.Rollback() }()
				_, err = tx.ExecContext(ctx, order)
			}
			ordered.Done()
			ordered.Wait()
			if err == nil {
				_, err = store.Update(WithTx(ctx, tx), "k", func(s session) (session, error) { return session{s.User + "+"}, nil })
			}
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				t.Errorf("an order, and an update of its session: %v", err)
			}
		})
	}
	ended.Wait()
	if e := d.mustGet(t, "k"); e.Value.User != "++" {
		t.Errorf("after two updates it is %+v", e.Value)
	}
}

// TestDiedInSnapshot: on PostgreSQL a transaction that reads by one snapshot tells a record that died since
// it began from one that others touched meanwhile, by one statement more. Other reads have one, and lock
// nothing.
func TestDiedInSnapshot(t *testing.T) {
	w := new(wire)
	db := w.pool(t, sqltest.PostgreSQL)
	d := open[session](t, db, PostgreSQL, nil)
	long := func(now driver.Instant) driver.Life {
		return driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	}
	for name, c := range map[string]struct {
		options       stdsql.TxOptions
		dead, touched error
		more          int // statements for these
	}{
		"read committed":  {stdsql.TxOptions{Isolation: stdsql.LevelReadCommitted}, driver.ErrNotFound, nil, 0},
		"repeatable read": {stdsql.TxOptions{Isolation: stdsql.LevelRepeatableRead}, driver.ErrNotFound, driver.ErrConflict, 1},
		"serializable":    {stdsql.TxOptions{Isolation: stdsql.LevelSerializable}, driver.ErrNotFound, driver.ErrConflict, 1},
		"read only":       {stdsql.TxOptions{Isolation: stdsql.LevelRepeatableRead, ReadOnly: true}, driver.ErrConflict, driver.ErrConflict, 1},
	} {
		for _, key := range []string{"absent", "dead before", "living", "dead", "touched"} {
			t.Run(name+"/"+key, func(t *testing.T) {
				ctx := t.Context()
				var tx *stdsql.Tx
				for keep := 50 * time.Millisecond; tx == nil; keep *= 2 { // until the touch is in time
					now := driver.Floor(d.Now())
					short := driver.Life{CreatedAt: now, ExpiresAt: now.Add(keep)}
					life := map[string]driver.Life{"dead before": {CreatedAt: now - 2000, ExpiresAt: now - 1000}, "living": long(now)}
					if _, ok := life[key]; !ok {
						life[key] = short
					}
					if err := d.Delete(ctx, key); err != nil {
						t.Fatal(err)
					}
					if key != "absent" {
						mustExec(t, db, PostgreSQL, fmt.Sprintf("INSERT INTO %s VALUES ('%s', '{}', %d, %d, 0, 1)", d.quoted(), key, life[key].CreatedAt, life[key].ExpiresAt))
					}
					var err error
					var n int
					if tx, err = db.BeginTx(ctx, &c.options); err == nil {
						err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+d.quoted()).Scan(&n)
					}
					if err != nil {
						t.Fatal(err)
					}
					if key == "touched" {
						_, err = d.Touch(ctx, key, driver.Meta{Life: short, Version: 1}, long(now), driver.Floor(d.Now()))
					}
					if err != nil {
						_ = tx.Rollback()
						tx = nil
						continue
					}
					for driver.Floor(d.Now()) <= short.ExpiresAt {
					}
				}
				defer func() { _ = tx.Rollback() }()
				n := 0
				w.set(func() cut { n++; return whole })
				e, err := d.Get(WithTx(ctx, tx), key)
				w.set(nil)
				if err == nil && !e.Alive(driver.Floor(d.Now())) {
					err = driver.ErrNotFound
				}
				want, most := driver.ErrNotFound, 1
				switch key {
				case "absent":
					most = 2 // it may ask for the time, outside the transaction
				case "living":
					want = nil
				case "dead":
					want, most = c.dead, 1+c.more
				case "touched":
					want, most = c.touched, 1+c.more
				}
				if !errors.Is(err, want) {
					t.Errorf("Get: %v; want %v", err, want)
				}
				if n > most {
					t.Errorf("%d statements; want %d", n, most)
				}
			})
		}
	}
}

// TestDyingInSnapshot: a record that lives is read by one statement and without a lock, however soon it
// dies, and many of which some have died by two.
func TestDyingInSnapshot(t *testing.T) {
	w := new(wire)
	db := w.pool(t, sqltest.PostgreSQL)
	d := open[session](t, db, PostgreSQL, nil)
	ctx := t.Context()
	plant := func(key string, keep time.Duration) (dies driver.Instant) {
		now := driver.Floor(d.Now())
		mustExec(t, db, PostgreSQL, fmt.Sprintf("DELETE FROM %s WHERE id = '%s'", d.quoted(), key))
		mustExec(t, db, PostgreSQL, fmt.Sprintf("INSERT INTO %s VALUES ('%s', '{}', %d, %d, 0, 1)", d.quoted(), key, now, now.Add(keep)))
		return now.Add(keep)
	}
	for _, readOnly := range []bool{false, true} {
		for keep := 800 * time.Millisecond; ; { // until all is read in time
			dies := plant("k", keep)
			tx, err := db.BeginTx(ctx, &stdsql.TxOptions{Isolation: stdsql.LevelRepeatableRead, ReadOnly: readOnly})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			w.set(func() cut { n++; return whole })
			_, err = d.Get(WithTx(ctx, tx), "k")
			many, errMany := d.GetMulti(WithTx(ctx, tx), []string{"k"})
			w.set(nil)
			var one int
			free := db.QueryRowContext(ctx, "SELECT 1 FROM "+d.quoted()+" WHERE id = 'k' FOR UPDATE NOWAIT").Scan(&one)
			_ = tx.Rollback()
			if driver.Floor(d.Now()).Add(keep/8) >= dies {
				continue
			}
			if err != nil || errMany != nil || len(many) != 1 || n != 2 || free != nil {
				t.Errorf("read only %v: Get: %v, GetMulti: %v, %v, by %d statements; lock for another: %v", readOnly, err, many, errMany, n, free)
			}
			break
		}
	}

	keys := []string{"long"}
	plant("long", time.Hour)
	tx, err := db.BeginTx(ctx, &stdsql.TxOptions{Isolation: stdsql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var dies driver.Instant
	for i := range 20 {
		keys = append(keys, fmt.Sprint("short", i))
		dies = plant(keys[i+1], 50*time.Millisecond)
	}
	var count int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+d.quoted()).Scan(&count); err != nil {
		t.Fatal(err)
	}
	for driver.Floor(d.Now()) <= dies {
	}
	n := 0
	w.set(func() cut { n++; return whole })
	many, err := d.GetMulti(WithTx(ctx, tx), keys)
	w.set(nil)
	if err != nil || len(many) != len(keys) || n != 2 {
		t.Errorf("GetMulti of 20 that have died and one that lives: %d, %v, by %d statements", len(many), err, n)
	}
}
