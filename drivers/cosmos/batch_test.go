package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Where a query of GetMulti fails, it returns what point reads find.
func TestGetMultiBeyondFailures(t *testing.T) {
	f := openOn[session](t, cosmostest.StartWith(t, &cosmostest.Options{Partitions: 4}), nil)
	keys, all := f.touchedMany(t, 20)
	keys = append(keys[:10:10], append([]string{"bad/key", "absent"}, keys[10:]...)...)
	f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpQuery}, Status: http.StatusServiceUnavailable, Count: 1000})
	found, err := f.GetMulti(t.Context(), keys)
	failed, ok := err.(driver.KeyErrors)
	if len(found) != len(all) || !ok || len(failed) != 1 || failed[0].Index != 10 {
		t.Errorf("with queries that fail: %d of %d found, %v; want all, and an error of key 10", len(found), len(all), err)
	}
	f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpRead}, Status: http.StatusBadRequest})
	if found, err = f.GetMulti(t.Context(), keys); len(found) != len(all)-1 || status(err) != http.StatusBadRequest {
		t.Errorf("with a read that fails too: %d of %d found, %v; want all but one, and the failure", len(found), len(all), err)
	}
	f.account.ClearFaults()
	f.inject(t, cosmostest.Fault{Status: http.StatusForbidden, Count: 1000})
	if counts := f.during(func() { _, err = f.GetMulti(t.Context(), keys) }); counts.Read > 0 || !errors.Is(err, driver.ErrRefused) {
		t.Errorf("without the right to query: %+v, %v; want no reads", counts, err)
	}
}

// fragile panics if it is decoded with N of 13.
type fragile struct{ N int }

func (p *fragile) UnmarshalJSON(b []byte) error {
	type plain fragile
	err := json.Unmarshal(b, (*plain)(p))
	if p.N == 13 {
		panic("bad value")
	}
	return err
}

// A key or record on which a caller's function panics is one failed key of a GetMulti.
func TestGetMultiBesidePanics(t *testing.T) {
	f := open[fragile](t, &Options{ID: func(key string) string { return key[:2] + key[2:] }})
	for i, key := range []string{"k0", "k1", "k2"} {
		f.mustInsert(t, key, fragile{12 + i}, lasting(time.Hour), base)
	}
	for _, queries := range []string{"answered", "refused"} {
		found, err := f.GetMulti(t.Context(), []string{"k0", "k", "k1", "k2"})
		failed, _ := err.(driver.KeyErrors)
		if len(found) != 2 || len(failed) != 2 || failed[0].Index != 1 || failed[1].Index != 2 {
			t.Errorf("with queries %s: found %v, %v; want an error of keys 1 and 2", queries, found, err)
		}
		if _, ok := errors.AsType[*driver.PanicError](err); !ok {
			t.Errorf("with queries %s: the panic is not told: %s", queries, fmt.Sprint(err))
		}
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpQuery}, Status: http.StatusServiceUnavailable, Count: 1000})
	}
}
