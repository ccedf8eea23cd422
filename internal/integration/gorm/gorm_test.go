package gorm

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	stdsql "database/sql"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestREADME: the README of pgxsql has the lines by which testWithTx gets GORM's transaction.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("../../../drivers/sql/pgxsql/README.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("gorm_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```go\nin := tx.Statement")
	block, _, found := strings.Cut("in := tx.Statement"+block, "\n```")
	if block = strings.ReplaceAll(block, "\n", "\n\t\t\t"); !found || !strings.Contains(string(own), block) {
		t.Errorf("the README says\n%s", block)
	}
}

type order struct {
	ID   int
	Item string
}

// An order and its session are stored together, or neither is, in a transaction of GORM: by its
// statements as they are, or prepared ones.
func TestWithTx(t *testing.T) {
	for name, config := range map[string]*gorm.Config{"plain": {}, "PrepareStmt": {PrepareStmt: true}} {
		t.Run(name, func(t *testing.T) { testWithTx(t, config) })
	}
}

func testWithTx(t *testing.T, config *gorm.Config) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), config)
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
			in := tx.Statement.ConnPool
			if prepared, ok := in.(*gorm.PreparedStmtTX); ok { // by gorm.Config.PrepareStmt
				in = prepared.Tx
			}
			own, ok := in.(*stdsql.Tx)
			if !ok {
				return errors.New("no transaction of database/sql")
			}
			ctx := sql.WithTx(tx.Statement.Context, own)
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
