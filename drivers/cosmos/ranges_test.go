package cosmos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The hashes of partition keys that cosmostest knows too: it puts them into its partitions.
func TestMurmur3(t *testing.T) {
	// Source: https://github.com/aappleby/smhasher, MurmurHash3_x64_128 with the seed 0.
	for text, want := range map[string][2]uint64{
		"":      {0, 0},
		"hello": {0xcbd8a7b341bd9b02, 0x5b1e906a48ae1d19},
		"The quick brown fox jumps over the lazy dog": {0xe34bbc7bbc071b6c, 0x7a433ca9c49a9347},
	} {
		if h1, h2 := murmur3([]byte(text)); [2]uint64{h1, h2} != want {
			t.Errorf("%q has the hash %x %x, want %x", text, h1, h2, want)
		}
	}
}

// A read carries the token of its partition alone, once the driver knows where that lies, and never
// misses what this process wrote; also after splits, and if keys are hashed in another way.
func TestTokenOfThePartition(t *testing.T) {
	for name, o := range map[string]Options{
		"id":     {},
		"levels": {PartitionKey: []KeyProperty{{Path: "/tenant", Of: func(key string) string { return key[len(key)-2:] }}, {Path: "/id"}}},
	} {
		t.Run(name, func(t *testing.T) {
			account := cosmostest.StartWith(t, &cosmostest.Options{Partitions: 16})
			f := openOn[session](t, account, &o)
			if _, _, err := f.readContainer(t.Context(), f.sessions.now()); err != nil {
				t.Fatal(err)
			}
			account.SetLag(true)
			metas := make(map[string]driver.Meta)
			const keys = 600
			for i := range keys {
				if i == keys/2 {
					account.Split()
				}
				key := fmt.Sprint("k", i)
				metas[key] = f.mustInsert(t, key, session{}, lasting(time.Hour), base)
				for _, j := range []int{i, i / 2, i / 3} {
					key := fmt.Sprint("k", j)
					if e := f.mustGet(t, key); e.Meta != metas[key] {
						t.Fatalf("after %d inserts %s is %+v, want %+v", i, key, e.Meta, metas[key])
					}
				}
			}
			if r := f.sessions.now().ranges; r.unusable || len(r.spans) < 16 {
				t.Errorf("%d spans are known", len(r.spans))
			}
			single := 0
			for key := range metas {
				k, err := f.identity(key)
				if err != nil {
					t.Fatal(err)
				}
				of := f.hashOf(k)
				if _, token := f.sessions.token(&of); token != nil && strings.Count(*token, ":") == 1 {
					single++
				}
			}
			if single < keys*9/10 {
				t.Errorf("%d of %d reads carry one token", single, keys)
			}
		})
	}
	var r ranges
	answer := func(key uint64, part string) { r.learn(&hash{key}, part, len(r.spans)) }
	for i, part := range []string{"a", "b", "a"} {
		answer(uint64(i), part)
	}
	if part, known := r.part(&hash{1}); known {
		t.Errorf("a key between others of another partition is taken to be in %s", part)
	}
	answer(1, "b")
	if part, _ := r.part(&hash{1}); part != "b" || r.unusable {
		t.Errorf("after a split the key is taken to be in %s", part)
	}
	if answer(1, "a"); !r.unusable {
		t.Error("partitions that are not ranges are taken for ranges")
	}
}

// Over any history of splits and of answers that come in any order, no key is taken to be in a partition that is older
// than one that has answered about it, and in the end all partitions are known.
func TestRangesHistories(t *testing.T) {
	type request struct {
		key, known int
		part       string // empty: not served yet
	}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		var r ranges
		var parts [16]string         // of each key; a partition's id begins with that of the one that it was split from
		told := make(map[int]string) // the newest partition that has answered about a key
		var under []*request         // under way
		next := 0
		split := func() {
			old, half := parts[random.IntN(len(parts))], random.IntN(len(parts))
			for i, part := range parts {
				if part == old && i < half {
					parts[i] = fmt.Sprint(part, "/", next)
				} else if part == old {
					parts[i] = fmt.Sprint(part, "/", next+1)
				}
			}
			next += 2
		}
		answer := func(q *request) {
			r.learn(&hash{uint64(q.key)}, q.part, q.known)
			if len(q.part) > len(told[q.key]) {
				told[q.key] = q.part
			}
			for key, newest := range told {
				if part, known := r.part(&hash{uint64(key)}); known && !strings.HasPrefix(part+"/", newest+"/") {
					t.Fatalf("seed %d: key %d is taken to be in %s, but %s has answered", seed, key, part, newest)
				}
			}
		}
		split()
		for range 100 {
			switch random.IntN(8) {
			case 0:
				if random.IntN(4) == 0 {
					split()
				}
			case 1, 2, 3:
				under = append(under, &request{key: random.IntN(len(parts)), known: len(r.spans)})
			case 4, 5:
				if len(under) > 0 {
					if q := under[random.IntN(len(under))]; q.part == "" {
						q.part = parts[q.key]
					}
				}
			default:
				if len(under) == 0 {
					continue
				}
				if i := random.IntN(len(under)); under[i].part != "" {
					answer(under[i])
					under = slices.Delete(under, i, i+1)
				}
			}
		}
		for range 2 {
			for key := range parts {
				answer(&request{key, len(r.spans), parts[key]})
			}
		}
		for key, want := range parts {
			if part, known := r.part(&hash{uint64(key)}); !known || part != want {
				t.Fatalf("seed %d: in the end key %d is taken to be in %q, want %q", seed, key, part, want)
			}
		}
	}
}

// untraced drops net/http's trace, as a transport does that makes requests of its own.
func untraced(o *azcosmos.ClientOptions) {
	client := *o.Transport.(*http.Client)
	below := client.Transport
	client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(context.Background())
		context.AfterFunc(req.Context(), cancel)
		return below.RoundTrip(req.WithContext(ctx))
	})
	o.Transport = &client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The answer to a write is lost below a transport that drops net/http's trace.
func TestLostAnswerUntraced(t *testing.T) {
	for _, w := range allWrites(t) {
		f := open[session](t, nil, untraced)
		was := f.mustInsert(t, secret, session{}, lasting(time.Hour), base)
		f.inject(t, cosmostest.Fault{Ops: []cosmostest.Op{w.op}, Drop: true, Applied: true})
		wantAmbiguous(t, w.name, w.call(t.Context(), f.Driver, was))

		// What was surely not sent is not ambiguous.
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.call(ended, f.Driver, was); !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%s with an ended context: %v", w.name, err)
		}
	}
	f := open[session](t, nil, untraced)
	if err := f.account.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 4 { // the first may find a connection that the client kept
		_, err = f.Insert(t.Context(), secret, session{}, lasting(time.Hour), base)
	}
	if err == nil || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("Insert without a server: %v", err)
	}
}
