package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

var sliding = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}

type sessionStore = *slidingttl.Store[session]

func openStore(t testing.TB, f *fixture[session], d *Driver[session], p slidingttl.Policy, touches slidingttl.TouchMode) sessionStore {
	t.Helper()
	s, err := slidingttl.New(d, p, &slidingttl.Options[session]{Now: f.account.Now, Touches: touches, TouchWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each cell of the README's tables of trips and of request units, as the account counts them.
func TestRoundTrips(t *testing.T) {
	get := func(ctx context.Context, s sessionStore) error {
		_, err := s.Get(ctx, "k")
		return err
	}
	touch := func(ctx context.Context, s sessionStore) error {
		_, err := s.Touch(ctx, "k")
		return err
	}
	type counts = cosmostest.Counts
	for _, c := range []struct {
		name    string
		absent  bool // start without the record
		fresh   bool // act by a process that has seen nothing
		after   time.Duration
		touches slidingttl.TouchMode
		act     func(context.Context, sessionStore, session) error
		want    counts
		units   [2]float64 // at 1 KB and 10 KB
		spread  float64    // tolerance, if a concurrent read may or may not see the item
	}{
		{name: "get, not due", want: counts{Read: 1}, units: [2]float64{1, 1.8},
			act: func(ctx context.Context, s sessionStore, _ session) error { return get(ctx, s) }},
		{name: "get, due", after: 4 * time.Minute, want: counts{Read: 1, Patch: 1}, units: [2]float64{12, 20.9},
			act: func(ctx context.Context, s sessionStore, _ session) error { return get(ctx, s) }},
		{name: "get, due, by a process that has seen nothing", fresh: true, after: 4 * time.Minute, want: counts{Read: 1, Patch: 1}, units: [2]float64{12, 20.9},
			act: func(ctx context.Context, s sessionStore, _ session) error { return get(ctx, s) }},
		{name: "get, due, in the background", after: 4 * time.Minute, touches: slidingttl.Background, want: counts{Read: 1, Patch: 1}, units: [2]float64{12, 20.9},
			act: func(ctx context.Context, s sessionStore, _ session) error { return get(ctx, s) }},
		{name: "get of what is absent", absent: true, want: counts{Read: 1}, units: [2]float64{1, 1},
			act: func(ctx context.Context, s sessionStore, _ session) error {
				if err := get(ctx, s); !errors.Is(err, slidingttl.ErrNotFound) {
					return fmt.Errorf("got an absent record: %w", err)
				}
				return nil
			}},
		{name: "insert", absent: true, want: counts{Create: 1}, units: [2]float64{6.5, 10.5},
			act: func(ctx context.Context, s sessionStore, v session) error { return s.Insert(ctx, "k", v) }},
		{name: "upsert of a new key", absent: true, want: counts{Create: 1, Read: 1}, units: [2]float64{7.5, 11.5}, spread: 0.9,
			act: func(ctx context.Context, s sessionStore, v session) error { return s.Upsert(ctx, "k", v) }},
		{name: "upsert of a live key that is remembered", want: counts{Replace: 1}, units: [2]float64{13, 21.1},
			act: func(ctx context.Context, s sessionStore, v session) error { return s.Upsert(ctx, "k", v) }},
		{name: "upsert of a live key", fresh: true, want: counts{Create: 1, Read: 1, Replace: 1}, units: [2]float64{15, 23.9},
			act: func(ctx context.Context, s sessionStore, v session) error { return s.Upsert(ctx, "k", v) }},
		{name: "update", fresh: true, want: counts{Read: 1, Replace: 1}, units: [2]float64{14, 22.9},
			act: func(ctx context.Context, s sessionStore, _ session) error {
				_, err := s.Update(ctx, "k", func(v session) (session, error) { return v, nil })
				return err
			}},
		{name: "touch by key, due", fresh: true, after: 4 * time.Minute, want: counts{Read: 1, Patch: 1}, units: [2]float64{12, 20.9},
			act: func(ctx context.Context, s sessionStore, _ session) error { return touch(ctx, s) }},
		{name: "touch by key, not due", fresh: true, want: counts{Read: 1}, units: [2]float64{1, 1.8},
			act: func(ctx context.Context, s sessionStore, _ session) error { return touch(ctx, s) }},
		{name: "delete", want: counts{Delete: 1}, units: [2]float64{6.5, 10.5},
			act: func(ctx context.Context, s sessionStore, _ session) error { return s.Delete(ctx, "k") }},
	} {
		for i, size := range []int{1 << 10, 10 << 10} {
			t.Run(fmt.Sprintf("%s/%d KB", c.name, size>>10), func(t *testing.T) {
				f := open[session](t, nil)
				s := openStore(t, f, f.Driver, sliding, c.touches)
				v := session{User: "ann", Note: "n"}
				f.mustInsert(t, "l", v, lasting(time.Hour), base)
				v.Note = strings.Repeat("n", 1+size-len(f.raw(t, "l"))) // makes an item of that size
				if !c.absent {
					if err := s.Insert(t.Context(), "k", v); err != nil {
						t.Fatal(err)
					}
				}
				if c.fresh {
					fresh := openStore(t, f, f.another(t), sliding, c.touches)
					defer func() { _ = fresh.Close(context.Background()) }()
					s = fresh
				}
				f.account.Advance(c.after)
				before := f.account.Charge()
				got := f.during(func() {
					if err := c.act(t.Context(), s, v); err != nil {
						t.Fatal(err)
					}
					if err := s.Close(t.Context()); err != nil { // touches in the background too
						t.Fatal(err)
					}
				})
				if got != c.want {
					t.Errorf("requests %+v, want %+v", got, c.want)
				}
				if units := f.account.Charge() - before; units < c.units[i]-0.11 || units > c.units[i]+c.spread+0.11 {
					t.Errorf("%.1f request units, want %.1f", units, c.units[i])
				}
				if most := f.account.LongestBody(cosmostest.OpPatch); most > 400 {
					t.Errorf("a touch sent %d bytes, want at most 400 whatever the item's size", most)
				}
			})
		}
	}
}

// Over a retained record an insert and an upsert wait once more than on a free key: the read
// runs beside the create.
func TestOverRetained(t *testing.T) {
	for name, write := range map[string]func(context.Context, sessionStore) error{
		"insert": func(ctx context.Context, s sessionStore) error { return s.Insert(ctx, "k", session{User: "new"}) },
		"upsert": func(ctx context.Context, s sessionStore) error { return s.Upsert(ctx, "k", session{User: "new"}) },
	} {
		t.Run(name, func(t *testing.T) {
			wire := newMeeting()
			f := open[session](t, &Options{Retain: 24 * time.Hour}, func(o *azcosmos.ClientOptions) {
				o.PerRetryPolicies = append(o.PerRetryPolicies, wire)
			})
			f.mustInsert(t, "k", session{User: "old"}, lasting(time.Hour), base)
			f.account.Advance(2 * time.Hour)
			s := openStore(t, f, f.another(t), sliding, slidingttl.Wait)
			got := f.during(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				wire.on.Store(true)
				err := write(ctx, s)
				wire.on.Store(false)
				if err != nil {
					t.Fatal(err)
				}
			})
			if want := (cosmostest.Counts{Create: 1, Read: 1, Replace: 1}); got != want {
				t.Errorf("requests %+v, want %+v", got, want)
			}
			if v, err := s.Get(t.Context(), "k"); err != nil || v.User != "new" {
				t.Errorf("Get returns %v, %v", v, err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// meeting delays a create, while it is on, until a read is under way too.
type meeting struct {
	on   atomic.Bool
	read chan struct{} // one for each read
}

func newMeeting() *meeting { return &meeting{read: make(chan struct{}, 10)} }

// Do implements policy.Policy.
func (m *meeting) Do(r *policy.Request) (*http.Response, error) {
	if m.on.Load() {
		switch r.Raw().Method {
		case http.MethodGet:
			m.read <- struct{}{}
		case http.MethodPost:
			select {
			case <-m.read:
			case <-r.Raw().Context().Done():
				return nil, r.Raw().Context().Err()
			}
		}
	}
	return r.Next()
}

// A batch is one query once the client knows the container.
func TestGetMultiIsOneTrip(t *testing.T) {
	f := open[session](t, nil)
	keys := []string{"a", "b", "c", "absent"}
	for _, key := range keys[:3] {
		f.mustInsert(t, key, session{User: key}, lasting(time.Hour), base)
	}
	first := f.during(func() {
		if _, err := f.GetMulti(t.Context(), keys); err != nil {
			t.Fatal(err)
		}
	})
	if want := (cosmostest.Counts{Query: 1, ReadContainer: 1, ReadRanges: 2}); first != want {
		t.Errorf("the first batch sent %+v, want %+v", first, want)
	}
	again := f.during(func() {
		got, err := f.GetMulti(t.Context(), keys)
		if err != nil || len(got) != 3 || got["b"].Value.User != "b" {
			t.Errorf("GetMulti returns %v, %v", got, err)
		}
	})
	if want := (cosmostest.Counts{Query: 1}); again != want {
		t.Errorf("another batch sent %+v, want %+v", again, want)
	}
}
