package cosmos

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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

// A physical partition that does not answer hides no record of the other, even where its keys come first.
func TestGetMultiBesideDeadPartition(t *testing.T) {
	var dead, last string // ids of partitions
	partition := func(o *azcosmos.ClientOptions) {
		client := *o.Transport.(*http.Client)
		below := client.Transport
		client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			res, err := below.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			if id, _, ok := strings.Cut(res.Header.Get("x-ms-session-token"), ":"); ok {
				if dead == "" {
					last = id
				} else if id == dead {
					_ = res.Body.Close()
					return nil, errors.New("the partition does not answer")
				}
			}
			return res, nil
		})
		o.Transport = &client
	}
	f := openOn[session](t, cosmostest.StartWith(t, &cosmostest.Options{Partitions: 2}), nil, partition)
	keys, _ := f.touchedMany(t, 200)
	of := make(map[string]string)
	for _, key := range keys {
		f.mustGet(t, key)
		of[key] = last
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(of[a], of[b]) })
	dead = of[keys[0]] // so that its keys come first
	sound := 0
	for _, id := range of {
		if id != dead {
			sound++
		}
	}
	found, err := f.GetMulti(t.Context(), keys)
	if sound < 50 || len(found) != sound || err == nil {
		t.Errorf("%d of %d sound keys found of %d, %v; want all, and the failure", len(found), sound, len(keys), err)
	}
}

var fails atomic.Bool // once the records are written

// fragile panics if it is decoded with N of 13, and fails.
type fragile struct{ N int }

func (p *fragile) UnmarshalJSON(b []byte) error {
	type plain fragile
	err := json.Unmarshal(b, (*plain)(p))
	if p.N == 13 && fails.Load() {
		panic("bad value")
	}
	return err
}

// A key or record on which a caller's function panics is one failed key of a GetMulti.
func TestGetMultiBesidePanics(t *testing.T) {
	f := open[fragile](t, &Options{ID: func(key string) string {
		if key == "s3cret" {
			panic("no UUID: " + key)
		}
		return key
	}})
	for i, key := range []string{"k0", "k1", "k2"} {
		f.mustInsert(t, key, fragile{12 + i}, lasting(time.Hour), base)
	}
	fails.Store(true)
	defer fails.Store(false)
	for _, queries := range []string{"answered", "refused"} {
		found, err := f.GetMulti(t.Context(), []string{"k0", "s3cret", "k1", "k2"})
		failed, _ := err.(driver.KeyErrors)
		if len(found) != 2 || len(failed) != 2 || failed[0].Index != 1 || failed[1].Index != 2 {
			t.Errorf("with queries %s: found %v, %v; want an error of keys 1 and 2", queries, found, err)
		}
		if _, ok := errors.AsType[*driver.PanicError](err); !ok || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("with queries %s: the panic is not told, or with its key: %s", queries, fmt.Sprint(err))
		}
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{cosmostest.OpQuery}, Status: http.StatusServiceUnavailable, Count: 1000})
	}
}
