package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// direct hands requests to a handler without a network, so that tests in a bubble can use one.
type direct struct{ http.Handler }

func (d direct) Do(r *http.Request) (*http.Response, error) {
	arrived := r.Clone(r.Context())
	if arrived.Body == nil {
		arrived.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, arrived)
	response := w.Result()
	response.Request = r
	return response, r.Context().Err()
}

// On an account whose throughput does not suffice for a touch at each read, reads fail. With a
// budget of touches none does: the README's figures.
func TestTouchesOnThrottledAccount(t *testing.T) {
	const units, reads, keys = 100, 40, 200 // the first two in a second
	account := cosmostest.Start(t)
	peek := func(ctx context.Context, s *slidingttl.Store[session], key string) error {
		_, err := s.Peek(ctx, key)
		return err
	}
	get := func(ctx context.Context, s *slidingttl.Store[session], key string) error {
		_, err := s.Get(ctx, key)
		return err
	}
	for _, c := range []struct {
		name   string
		budget float64
		read   func(context.Context, *slidingttl.Store[session], string) error
		fail   bool
	}{
		{"without touches", 0, peek, false},
		{"each read touches", 0, get, true},
		{"three touches a second", 3, get, false},
	} {
		bubble := func(t *testing.T) {
			account.SetTime(time.Now())
			defer account.SetThroughput(0)
			shape, err := New[session](&azcosmos.ContainerClient{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			d, err := New[session](account.Container(t, shape.Properties(""), func(o *azcosmos.ClientOptions) { o.Transport = direct{account} }), nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour},
				&slidingttl.Options[session]{Budget: c.budget})
			if err != nil {
				t.Fatal(err)
			}
			for i := range keys {
				if err := s.Insert(t.Context(), fmt.Sprint(i), session{}); err != nil {
					t.Fatal(err)
				}
			}
			pass := func(d time.Duration) {
				time.Sleep(d)
				account.Advance(d)
			}
			pass(time.Second)
			account.SetThroughput(units)
			var calls sync.WaitGroup
			var failed atomic.Int64
			for i := range 60 * reads {
				calls.Go(func() {
					if err := c.read(t.Context(), s, fmt.Sprint(i%keys)); err != nil {
						failed.Add(1)
					}
				})
				pass(time.Second / reads)
			}
			calls.Wait()
			account.SetThroughput(0)
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if t.Logf("%d of %d reads failed", failed.Load(), 60*reads); failed.Load() > 0 != c.fail {
				t.Errorf("%d reads failed, want some: %t", failed.Load(), c.fail)
			}
		}
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, bubble) })
	}
}
