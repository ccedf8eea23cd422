package couchbase_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// session is a document of a usual size, about 500 bytes.
type session struct {
	User   string   `json:"user"`
	Email  string   `json:"email"`
	Roles  []string `json:"roles"`
	Locale string   `json:"locale"`
	Cart   []item   `json:"cart"`
}

type item struct {
	SKU   string  `json:"sku"`
	Count int     `json:"count"`
	Price float64 `json:"price"`
}

func aSession() session {
	s := session{User: "user-4711", Email: "someone@example.com", Roles: []string{"customer", "beta", "newsletter"}, Locale: "de-AT"}
	for i := range 8 {
		s.Cart = append(s.Cart, item{"SKU-00" + strconv.Itoa(i), i + 1, 19.9})
	}
	return s
}

// contender is one way to read a session and keep it alive. Each has keys of its own.
type contender struct {
	name string
	get  func(key string) error
}

const benchKeys = 1024

func (c contender) key(i int) string { return fmt.Sprintf("%s:%08x", c.name, i%benchKeys) }

// contenders are a read whose touch is not due, the same read in bare gocb, and what
// teams do without this SDK.
func contenders(b *testing.B) []contender {
	f := open(b)
	s := newStore(b, f, newDriver[session](b, f, nil), slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}, nil)
	xattr := &gocb.GetSpecOptions{IsXattr: true}
	all := []contender{
		{"slidingttl", func(key string) error {
			_, err := s.Get(b.Context(), key)
			return err
		}},
		{"bare LookupIn", func(key string) error {
			res, err := f.c.LookupIn(key, []gocb.LookupInSpec{
				gocb.GetSpec("$document.exptime", xattr),
				gocb.GetSpec("slidingttl.created_at", xattr),
				gocb.GetSpec("", nil),
			}, &gocb.LookupInOptions{Context: b.Context()})
			if err != nil {
				return err
			}
			var expiry, created int64
			var v session
			if err := res.ContentAt(0, &expiry); err != nil {
				return err
			}
			if err := res.ContentAt(1, &created); err != nil {
				return err
			}
			return res.ContentAt(2, &v)
		}},
		{"naive Get and Touch", func(key string) error {
			res, err := f.c.Get(key, &gocb.GetOptions{Context: b.Context()})
			if err != nil {
				return err
			}
			var v session
			if err := res.Content(&v); err != nil {
				return err
			}
			_, err = f.c.Touch(key, 30*time.Minute, &gocb.TouchOptions{Context: b.Context()})
			return err
		}},
	}
	for _, c := range all {
		for i := range benchKeys {
			ok(b, "Insert", s.Insert(b.Context(), c.key(i), aSession()))
		}
	}
	return all
}

// BenchmarkGet is each contender by itself.
func BenchmarkGet(b *testing.B) {
	for _, c := range contenders(b) {
		for _, parallel := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", c.name, parallel), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(parallel)
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						if err := c.get(c.key(i)); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkGetSideBySide lets the contenders take turns of some milliseconds, so that other load
// of the machine affects all of them. It reports the throughput of slidingttl as a multiple of
// the others', by the median turn.
func BenchmarkGetSideBySide(b *testing.B) {
	const readers, turn = 16, 400
	all := contenders(b)
	took := make([][]time.Duration, len(all))
	for b.Loop() {
		for _, i := range rand.Perm(len(all)) { // else each pays for its predecessor's garbage
			c := all[i]
			began := time.Now()
			together(readers, func(r int) {
				for n := range turn / readers {
					if err := c.get(c.key(r*turn + n)); err != nil {
						b.Error(err)
					}
				}
			})
			took[i] = append(took[i], time.Since(began))
		}
	}
	median := func(i int) float64 {
		slices.Sort(took[i])
		return float64(took[i][len(took[i])/2])
	}
	for i, c := range all[1:] {
		b.ReportMetric(median(i+1)/median(0), "x_"+strings.ReplaceAll(c.name, " ", "_"))
	}
}

// BenchmarkUpsert compares writes of the value.
func BenchmarkUpsert(b *testing.B) {
	f := open(b)
	policy := slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}
	v := aSession()
	for _, place := range []struct {
		name string
		at   couchbase.Place
	}{{"xattr", couchbase.Xattr}, {"body", couchbase.Body}} {
		s := newStore(b, f, newDriver[session](b, f, &couchbase.Options{CreatedIn: place.at}), policy, nil)
		b.Run("slidingttl known/"+place.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ok(b, "Upsert", s.Upsert(b.Context(), "k"+place.name, v))
			}
		})
		b.Run("slidingttl new/"+place.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ok(b, "Upsert", s.Upsert(b.Context(), "k"+place.name+strconv.Itoa(i), v))
			}
		})
	}
	b.Run("bare Upsert", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := f.c.Upsert("bare", v, &gocb.UpsertOptions{Expiry: 30 * time.Minute, Context: b.Context()})
			ok(b, "Upsert", err)
		}
	})
}
