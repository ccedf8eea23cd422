package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
			if f.sessions.now().ranges.unusable || len(f.sessions.now().ranges.known) < 16 {
				t.Errorf("%d spans are known", len(f.sessions.now().ranges.known))
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
	for i, part := range []string{"a", "b", "a"} {
		r.learn(hash{uint64(i)}, part)
	}
	if !r.unusable {
		t.Error("partitions that are not ranges are taken for ranges")
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
