package cosmos

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// configurations are the ways to keep a record, each held to the whole contract.
var configurations = map[string]Options{
	"default": {},
	"hierarchical": {
		PartitionKey: []KeyProperty{{Path: "/tenant", Of: Fixed("acme")}, {Path: "/session"}, {Path: "/id"}},
		ID:           Prefix("session:"),
		CreatedAt:    "born", ExpiresAt: "dies", Version: "v",
		MaxSkew: 2 * time.Hour,
		Retain:  90 * time.Minute,
	},
	"encoded": {
		PartitionKey: []KeyProperty{{Path: "/owner", Of: Fixed("acme")}},
		ID:           func(key string) string { return hex.EncodeToString([]byte(key)) },
		KeyOf: func(id string, _ []string) (string, bool) {
			key, err := hex.DecodeString(id)
			return string(key), err == nil
		},
	},
}

// exactNumbers is JSON that writes a number as a string if a float64 does not hold it.
type exactNumbers struct{}

type exactValue struct {
	Text   string            `json:"text"`
	Count  int64             `json:"count,string"`
	Ratio  float64           `json:"ratio"`
	Flag   bool              `json:"flag"`
	Bytes  []byte            `json:"bytes"`
	List   []string          `json:"list"`
	Map    map[string]string `json:"map"`
	When   time.Time         `json:"when"`
	Nested drivertest.Nested `json:"nested"`
}

func (exactNumbers) Encode(v any) ([]byte, error) {
	return json.Marshal(exactValue(v.(drivertest.Value)))
}

func (exactNumbers) Decode(b []byte, into any) error {
	return json.Unmarshal(b, (*exactValue)(into.(*drivertest.Value)))
}

// TestContract runs the suite against cosmostest. The cases move its clock, which differs from
// the system's if MaxSkew allows it, and reads lag if they may. Physical partitions are split
// when a case first waits.
func TestContract(t *testing.T) {
	for name, opts := range configurations {
		t.Run(name, func(t *testing.T) { contract(t, opts, cosmostest.Options{Partitions: 2}) })
	}
	t.Run("over HTTP2 near a region that is behind", func(t *testing.T) {
		contract(t, Options{}, cosmostest.Options{HTTP2: true, Partitions: 2, SecondRegion: true})
	})
}

func contract(t *testing.T, opts Options, of cosmostest.Options) {
	opts.Codec = exactNumbers{}
	lacks := map[drivertest.Feature]string{
		drivertest.Local:       "the store is across a network",
		drivertest.Clock:       "Cosmos DB tells its time in whole seconds, which is coarser than clocks are apart",
		drivertest.Mender:      "not built: a touch brings what it reads into the usual form",
		drivertest.ReadToucher: "a read and a touch are two requests",
	}
	if opts.MaxSkew != 0 {
		lacks[drivertest.Apart] = "its clocks may be so far apart"
	}
	drivertest.Run(t, drivertest.Harness{
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			account := cosmostest.StartWith(t, &of)
			account.Advance(-opts.MaxSkew / 2)
			lag(account, true)
			shape, err := New[drivertest.Value](&azcosmos.ContainerClient{}, &opts)
			if err != nil {
				t.Fatal(err)
			}
			gate := new(drivertest.Gate)
			container := account.Container(t, shape.Properties(""), impatient, near, gated(gate, account))
			d, err := New[drivertest.Value](container, &opts)
			if err != nil {
				t.Fatal(err)
			}
			other, err := account.Client(t, impatient).NewContainer("test", container.ID())
			if err != nil {
				t.Fatal(err)
			}
			b := backend(account, other, d)
			b.Gate = gate
			split := sync.OnceFunc(account.Split)
			b.Wait = func(d time.Duration) {
				account.Advance(d)
				split()
			}
			if opts.MaxSkew == 0 {
				b.Apart = func(d time.Duration) { account.Advance(d - time.Until(account.Now())) }
			}
			return b
		},
		Lacks: lacks,
	})
}

// lag makes reads without a session stale: in the write region they miss the last write, in
// another region all writes since.
func lag(account *cosmostest.Account, on bool) {
	account.SetLag(on)
	account.SetRegionLag(on)
}

// near makes a client read in the second region, if there is one.
func near(o *azcosmos.ClientOptions) {
	o.PreferredRegions = []string{cosmostest.ReadRegion, cosmostest.WriteRegion}
}

// backend returns the Backend for the container of d. container is another client of it.
func backend(account *cosmostest.Account, container *azcosmos.ContainerClient, d *Driver[drivertest.Value]) *drivertest.Backend {
	most := maxID
	switch {
	case d.opts.KeyOf != nil:
		most /= 2
	case d.opts.ID != nil:
		most -= len("session:")
	}
	return &drivertest.Backend{
		Driver: d,
		Now:    account.Now,
		Wait:   account.Advance,
		MaxKey: most,
		Takes: func(key string) bool {
			_, err := d.identity(key)
			return err == nil
		},
		Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
			return plant(ctx, account, container, d, key, v, life)
		},
		Malform: func(ctx context.Context, key string, v drivertest.Value) error {
			return plant(ctx, account, container, d, key, v, driver.Life{}, d.opts.ExpiresAt)
		},
		Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
			lag(account, false) // so that it reads another driver's writes at once
			opts := d.opts
			opts.Retain = retain
			other, err := New[drivertest.Value](container, &opts)
			if err != nil {
				panic(err)
			}
			return other
		},
		Again: func() driver.Driver[drivertest.Value] {
			again, err := New[drivertest.Value](container, &d.opts)
			if err != nil {
				panic(err)
			}
			if _, tokens := d.sessions.token(nil); tokens != nil { // some moments later
				for token := range strings.SplitSeq(*tokens, ",") {
					again.sessions.observe(&http.Response{Header: http.Header{"X-Ms-Session-Token": {token}}}, nil, again.sessions.now())
				}
			}
			return again
		},
		Fail: func() func() {
			_ = account.Inject(cosmostest.Fault{Status: http.StatusForbidden, Count: 1 << 30})
			return func() { account.ClearFaults() }
		},
		Own: func(err error) bool {
			var answer *azcore.ResponseError
			return errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden
		},
		Hang: account.Hang,
		Hostile: func(ctx context.Context, r drivertest.HostileRecord) error {
			return loadHostile(ctx, container, d, r)
		},
		MaxValue: mostItem,
	}
}

// plant writes a record as a program would that knows the container and not the driver: its
// created_at in another zone, its expiry as a ttl, and a word for an invalid instant.
func plant(ctx context.Context, account *cosmostest.Account, container *azcosmos.ContainerClient, d *Driver[drivertest.Value], key string, v drivertest.Value, life driver.Life, bad ...string) error {
	k, err := d.identity(key)
	if err != nil {
		return err
	}
	value, err := d.opts.Codec.Encode(v)
	if err != nil {
		return err
	}
	var item map[string]any
	if err := json.Unmarshal(value, &item); err != nil {
		return err
	}
	item["id"] = k.id
	for i, p := range d.opts.PartitionKey {
		item[p.Path[1:]] = k.partition[i]
	}
	if life.CreatedAt != 0 {
		item[d.opts.CreatedAt] = life.CreatedAt.Time().In(time.FixedZone("", 2*60*60)).Format(time.RFC3339Nano)
	}
	for _, name := range bad {
		item[name] = "soon"
	}
	for {
		now := account.Now().Truncate(time.Second)
		if life.ExpiresAt != 0 {
			left := life.ExpiresAt.Time().Sub(now)
			if left < time.Second {
				item[d.opts.ExpiresAt] = life.ExpiresAt.Time().Format(time.RFC3339)
			} else {
				item["ttl"] = int(left.Seconds())
			}
		}
		body, err := json.Marshal(item)
		if err != nil {
			return err
		}
		res, err := container.UpsertItem(d.withKey(ctx, k), d.partitionKey(k), body, nil)
		if err != nil {
			return fmt.Errorf("planting: %w", err)
		}
		d.sessions.observe(res.RawResponse, nil, d.sessions.now()) // the cases want to see it at once
		if account.Now().Truncate(time.Second).Equal(now) {
			return nil // else _ts may be of the next second
		}
	}
}
