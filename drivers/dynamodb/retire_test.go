package dynamodb

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Of processes that retire a record at once, one has ended its life: a token is redeemed once.
func TestOneRetires(t *testing.T) {
	for name, o := range map[string]*Options{
		"plain": nil, "retained": {Retain: time.Hour}, "a life table": apartly(),
		"a life table, held late": {LifeTable: "of its own", Hold: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			tbl, clock := open[session](t, o), handsAt(base)
			opts := tbl.Driver.opts
			const n = 4
			var stores []*slidingttl.Store[session]
			for range n { // each a process of its own
				d, err := New[session](tbl.Driver.client, tbl.Driver.table, &opts)
				if err != nil {
					t.Fatal(err)
				}
				stores = append(stores, openStore(t, d, policy, slidingttl.Options[session]{Now: clock.Now}))
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
