package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// eofClient is a client that answers as lib/pq does: its handleError (error.go of v1.12.3) makes driver.ErrBadConn also of
// an EOF in place of a statement's answer, and of each FATAL error, such as that of a server which is told to stop.
// Neither tells whether the statement was executed.
type eofClient struct {
	of   sqldriver.Driver
	dsn  string
	lost *atomic.Bool // the next statement is executed, and its answer lost
}

func (c eofClient) Open(dsn string) (sqldriver.Conn, error) {
	conn, err := c.of.Open(dsn)
	return eofConn{conn, c}, err
}

func (c eofClient) Connect(context.Context) (sqldriver.Conn, error) { return c.Open(c.dsn) }

func (c eofClient) Driver() sqldriver.Driver { return c }

// eofConn is a connection of eofClient.
type eofConn struct {
	sqldriver.Conn
	of eofClient
}

func (c eofConn) CheckNamedValue(v *sqldriver.NamedValue) error {
	if checks, ok := c.Conn.(sqldriver.NamedValueChecker); ok {
		return checks.CheckNamedValue(v)
	}
	return sqldriver.ErrSkip
}

func (c eofConn) BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	return c.Conn.(sqldriver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c eofConn) ExecContext(ctx context.Context, statement string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	loses := c.of.lost.CompareAndSwap(true, false)
	result, err := c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, statement, args)
	if loses {
		return nil, sqldriver.ErrBadConn
	}
	return result, err
}

func (c eofConn) QueryContext(ctx context.Context, statement string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	loses := c.of.lost.CompareAndSwap(true, false)
	rows, err := c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, statement, args)
	if loses && err == nil {
		for row := make([]sqldriver.Value, len(rows.Columns())); rows.Next(row) == nil; { // it is executed whole
		}
		return nil, errors.Join(sqldriver.ErrBadConn, rows.Close())
	}
	return rows, err
}

// TestBadConn: driver.ErrBadConn of a client that is not known to return it only for what was never sent may be a lost answer:
// the write is ambiguous, and not sent again.
func TestBadConn(t *testing.T) {
	type count struct{ N int }
	for name, of := range databases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			client, dsn := sqltest.DSN(t, of.server)
			if of.dialect == MySQL {
				dsn += "?interpolateParams=true" // else its connection leaves a statement with arguments to a prepared one
			}
			plain, err := stdsql.Open(client, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = plain.Close() }()
			var lost atomic.Bool
			db := stdsql.OpenDB(eofClient{plain.Driver(), dsn, &lost})
			defer func() { _ = db.Close() }()
			d := open[count](t, db, of.dialect, nil)
			s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
			if err == nil {
				err = s.Check(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close(context.Background()) }()
			once := func(what string, err error, n int) {
				t.Helper()
				got, after := s.Peek(ctx, "n")
				if err != nil && !errors.Is(err, slidingttl.ErrAmbiguous) || after != nil || got.Value.N != n {
					t.Errorf("%s answers %v, and the record has %d, %v; want nil or %v, and %d", what, err, got.Value.N, after, slidingttl.ErrAmbiguous, n)
				}
			}
			lost.Store(true)
			once("Insert", s.Insert(ctx, "n", count{1}), 1) // which recognizes itself
			calls := 0
			_, err = s.Update(ctx, "n", func(c count) (count, error) {
				calls++
				lost.Store(calls == 1)
				c.N++
				return c, nil
			})
			once("Update", err, 2)
			lost.Store(true)
			once("Upsert", s.Upsert(ctx, "n", count{3}), 3)
			lost.Store(true)
			if err := s.Delete(ctx, "n"); !errors.Is(err, slidingttl.ErrAmbiguous) {
				t.Errorf("Delete answers %v; want %v", err, slidingttl.ErrAmbiguous)
			}
		})
	}
}

// TestKnownClients: those that keep the rule of driver.ErrBadConn are told by their package.
func TestKnownClients(t *testing.T) {
	for name, of := range databases {
		db := sqltest.DB(t, of.server)
		if d := open[session](t, db, of.dialect, nil); !d.unsent(sqldriver.ErrBadConn) {
			t.Errorf("%s: %T is not known", name, db.Driver())
		}
	}
}
