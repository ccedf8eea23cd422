package gorm

import (
	"errors"
	"testing"
	"time"

	stdsql "database/sql"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

type order struct {
	ID   int
	Item string
}

// An order and its session are stored together, or neither is, in a transaction of GORM.
func TestWithTx(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	d, err := sql.New[string](db, sql.PostgreSQL, "sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	sessions, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("nothing was ordered")
	for key, want := range map[string]error{"kept": nil, "dropped": failure} {
		err := g.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
			ctx := sql.WithTx(t.Context(), tx.Statement.ConnPool.(*stdsql.Tx))
			if err := sessions.Insert(ctx, key, "ann"); err != nil {
				return err
			}
			if err := tx.Create(&order{Item: key}).Error; err != nil {
				return err
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v; want %v", key, err, want)
		}
		_, err = sessions.Get(t.Context(), key)
		var orders int64
		counted := g.Model(&order{}).Where("item = ?", key).Count(&orders).Error
		if counted != nil || (err == nil) != (want == nil) || (orders == 1) != (want == nil) {
			t.Errorf("%s: %v, with %d orders, %v", key, err, orders, counted)
		}
	}
	if err := sessions.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
