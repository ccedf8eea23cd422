package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
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
