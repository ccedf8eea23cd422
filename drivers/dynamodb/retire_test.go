package dynamodb

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// retiring are the layouts by which a life ends in a different way.
func retiring() map[string]*Options {
	return map[string]*Options{
		"plain": nil, "retained": {Retain: time.Hour}, "a life table": apartly(),
		"a life table, held late": {LifeTable: "of its own", Hold: time.Minute},
	}
}

// another opens a store over tbl's table for a process of its own.
func (tbl *table[T]) another(t *testing.T, clock *hands) *slidingttl.Store[T] {
	t.Helper()
	opts := tbl.Driver.opts
	d, err := newDriver[T](tbl.Driver.client, tbl.Driver.table, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return openStore(t, d, policy, slidingttl.Options[T]{Now: clock.Now})
}

// Of processes that retire a record at once, one has ended its life: a token is redeemed once.
func TestOneRetires(t *testing.T) {
	for name, o := range retiring() {
		t.Run(name, func(t *testing.T) {
			tbl, clock := open[session](t, o), handsAt(base)
			opts := tbl.Driver.opts
			const n = 4
			var stores []*slidingttl.Store[session]
			for range n { // each a process of its own
				stores = append(stores, tbl.another(t, clock))
			}
			if err := stores[0].Insert(t.Context(), "token", session{User: "ann"}); err != nil {
				t.Fatal(err)
			}
			clock.forward(5 * time.Minute)
			// All have read the record before the first writes.
			var read sync.WaitGroup
			read.Add(n)
			tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
				res, err := send()
				if op == "GetItem" && o == nil || op == "GetItem" && opts.LifeTable == "" || op == "BatchGetItem" {
					read.Done()
					read.Wait()
				}
				return res, err
			})
			errs := make([]error, n)
			var g sync.WaitGroup
			for i, s := range stores {
				g.Go(func() { errs[i] = s.Retire(t.Context(), "token") })
			}
			g.Wait()
			tbl.wire.reset()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
				} else if !errors.Is(err, slidingttl.ErrNotFound) {
					t.Error(err)
				}
			}
			if won != 1 {
				t.Errorf("%d of %d processes have retired one record: %v", won, n, errs)
			}
		})
	}
}

// Nor are two told so where one of them was answered by an error, and sends its update again over the other's.
func TestOneRetiresThoughAnAnswerIsLost(t *testing.T) {
	for name, o := range retiring() {
		t.Run(name, func(t *testing.T) {
			tbl, clock := open[session](t, o, impatient(3)), handsAt(base)
			one, two := tbl.another(t, clock), tbl.another(t, clock)
			if err := one.Insert(t.Context(), "token", session{User: "ann"}); err != nil {
				t.Fatal(err)
			}
			clock.forward(5 * time.Minute)
			var first atomic.Bool
			var other error
			tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
				if op == "UpdateItem" && first.CompareAndSwap(false, true) {
					other = two.Retire(t.Context(), "token")
					return failure(req, 503, "ServiceUnavailable"), nil
				}
				return send()
			})
			err := one.Retire(t.Context(), "token")
			tbl.wire.reset()
			if other != nil || !errors.Is(err, slidingttl.ErrAmbiguous) && !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("%v and %v, want one nil", other, err)
			}
		})
	}
}

// Nor where a life table is given up, and both move the life to the value's item.
func TestOneRetiresThoughALifeTableIsGivenUp(t *testing.T) {
	tbl, clock := open[session](t, apartly(), impatient(3)), handsAt(base)
	if err := tbl.another(t, clock).Insert(t.Context(), "token", session{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	tbl.Driver.opts.LifeInValue = true
	one, two := tbl.another(t, clock), tbl.another(t, clock)
	clock.forward(5 * time.Minute)
	var updates atomic.Int32
	other := errors.New("not called")
	tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
		if op == "UpdateItem" && updates.Add(1) == 2 { // the first announces it in the life table
			other = two.Retire(t.Context(), "token")
			return failure(req, 503, "ServiceUnavailable"), nil
		}
		return send()
	})
	err := one.Retire(t.Context(), "token")
	tbl.wire.reset()
	if err == nil && other == nil {
		t.Error("two processes are told that they have retired one record")
	}
}
