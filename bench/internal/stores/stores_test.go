package stores

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// holdToTheirNames reads each record twice, by each contender, and sees whether a way that
// should write does.
func holdToTheirNames(t *testing.T, contenders []contender, address string, writes func() float64) {
	for i, c := range contenders {
		r := &reader{contender: c}
		if _, err := r.do(task{Address: address, Prefix: string(rune('a' + i)), Keys: 10, Readers: 2, Reads: 5}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		before := writes()
		s, err := r.do(task{Readers: 2, Reads: 5})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		wrote := s["writes"] > 0 || writes() > before
		switch c.name {
		case naiveName, atOnceName, redisNaive, redisAtOnce, zipfNaive, zipfSCS:
			if !wrote {
				t.Errorf("%s: nothing was written", c.name)
			}
		case bareName, own1, own10, retained:
			if wrote {
				t.Errorf("%s: wrote", c.name)
			}
		}
		if s["ns"] <= 0 || s["p99"] < s["p50"] || s["allocs"] < 1 {
			t.Errorf("%s: measured %v", c.name, s)
		}
	}
}

func TestCouchbase(t *testing.T) {
	n := couchbasetest.Start(t)
	holdToTheirNames(t, couchbaseContenders, n.ConnectionString(), func() float64 {
		n.Advance(2e9) // a touch in the same second would change nothing
		return float64(n.Counts().Mutations)
	})
}

func TestRetain(t *testing.T) {
	n := couchbasetest.Start(t)
	both := []contender{{name: own10, open: onCouchbase(10, 0, nil, nil)}, {name: retained, open: onCouchbase(10, retention, nil, nil)}}
	holdToTheirNames(t, both, n.ConnectionString(), func() float64 { return float64(n.Counts().Mutations) })
}

func TestDynamoDB(t *testing.T) {
	holdToTheirNames(t, dynamodbContenders, dynamodbtest.Start(t).Endpoint, func() float64 { return 0 })
}

func TestCosmos(t *testing.T) {
	account := cosmostest.Start(t)
	address, err := makeContainer(account)
	if err != nil {
		t.Fatal(err)
	}
	holdToTheirNames(t, cosmosContenders, address, func() float64 { return 0 })
}

func TestRedis(t *testing.T) {
	s := redistest.Start(t)
	admin := s.Client(t)
	holdToTheirNames(t, redisContenders, s.Addr, func() float64 {
		n, err := counters(admin)
		if err != nil || n["server-cpu"] == 0 {
			t.Fatalf("%v, %v; want the server's processor time", n, err)
		}
		return n["writes"]
	})
	if b, err := json.Marshal(smallSession()); err != nil || len(b) != 256 {
		t.Errorf("a session has %d bytes, %v; want 256", len(b), err)
	}
}

func TestSQL(t *testing.T) {
	for name, b := range map[string]database{"postgres": postgres, "mariadb": mariadb, "sqlite": sqlite} {
		t.Run(name, func(t *testing.T) {
			err := b.with(func(address string) error {
				holdToTheirNames(t, b.contenders(), address, func() float64 { return 0 })
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Each tier reads the records that the bare client has put, and nearly all of them from memory
// when it has read them before.
func TestHot(t *testing.T) {
	node, dynamodb := couchbasetest.Start(t), dynamodbtest.Start(t)
	for _, c := range hotContenders() {
		address := dynamodb.Endpoint
		if strings.HasSuffix(c.name, "couchbase") {
			address = node.ConnectionString()
		}
		r := &reader{contender: c}
		if _, err := r.do(task{Address: address, Prefix: "record-", Keys: 50, Readers: 2, Reads: 200}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		lookups := func() float64 { return float64(node.Counts().LookupIn) }
		before := lookups()
		s, err := r.do(task{Readers: 2, Reads: 50})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		trips := s["trips"] * 100
		if strings.HasSuffix(c.name, "couchbase") && !strings.HasPrefix(c.name, hotOtter) {
			trips = lookups() - before
		}
		switch bare := strings.HasPrefix(c.name, hotBare); {
		case bare && strings.HasSuffix(c.name, "couchbase") && trips < 100:
			t.Errorf("%s: %v trips for 100 reads", c.name, trips)
		case !bare && trips > 20:
			t.Errorf("%s: %v trips for 100 reads of what is held", c.name, trips)
		}
	}
}
