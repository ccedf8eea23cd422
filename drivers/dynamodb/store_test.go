package dynamodb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hands is a clock that tests set.
type hands struct{ now atomic.Int64 }

func handsAt(i driver.Instant) *hands {
	h := &hands{}
	h.now.Store(int64(i))
	return h
}

func (h *hands) Now() time.Time          { return time.UnixMilli(h.now.Load()) }
func (h *hands) forward(d time.Duration) { h.now.Add(int64(d / time.Millisecond)) }

var policy = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}

func openStore[T any](t testing.TB, d driver.Driver[T], p slidingttl.Policy, opts slidingttl.Options[T]) *slidingttl.Store[T] {
	t.Helper()
	opts.TouchWait = cmp.Or(opts.TouchWait, time.Minute) // tests look at what a touch left
	s, err := slidingttl.New(d, p, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRoundTrips counts the requests of each operation.
func TestRoundTrips(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	clock := handsAt(base)
	s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now})
	other := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now}) // has seen nothing
	count := func(what string, err error, ops ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		tbl.wire.want(t, what, ops...)
	}
	get := func() error { _, err := s.Get(ctx, "k"); return err }
	touch := func(s *slidingttl.Store[session]) error { _, err := s.Touch(ctx, "k"); return err }

	count("Insert", s.Insert(ctx, "inserted", session{}), "PutItem")
	count("Upsert of a new key", s.Upsert(ctx, "k", session{User: "one"}), "PutItem")
	count("Upsert of a live key that the store has seen", s.Upsert(ctx, "k", session{User: "two"}), "PutItem")
	count("Upsert of a live key", other.Upsert(ctx, "k", session{User: "three"}), "PutItem", "PutItem")
	count("Upsert of a live key that another has written since", s.Upsert(ctx, "k", session{User: "four"}), "PutItem", "PutItem")
	large := session{User: strings.Repeat("x", lookFirst)}
	count("Upsert of a large new key", s.Upsert(ctx, "large", large), "GetItem", "PutItem")
	count("Upsert of a large live key that the store has seen", s.Upsert(ctx, "large", large), "PutItem")
	count("Upsert of a large live key", other.Upsert(ctx, "large", large), "GetItem", "PutItem")
	count("Get, not due", get(), "GetItem")
	clock.forward(4 * time.Minute)
	count("Get, due", get(), "GetItem", "UpdateItem")
	count("Get once more", get(), "GetItem")
	_, err := s.Update(ctx, "k", func(v session) (session, error) { return session{User: "five"}, nil })
	count("Update", err, "GetItem", "PutItem")
	clock.forward(4 * time.Minute)
	count("Touch by key", touch(s), "GetItem", "UpdateItem")
	count("Touch by key, not due", touch(s), "GetItem")
	count("Delete", s.Delete(ctx, "inserted"), "DeleteItem")

	// Where the cap binds.
	for range 26 { // 26 minutes each, to within half an hour of the cap
		clock.forward(26 * time.Minute)
		if err := get(); err != nil {
			t.Fatal(err)
		}
	}
	tbl.wire.reset()
	capped := policy
	capped.MaxLifetime -= 13 * time.Minute
	late := openStore(t, tbl.Driver, capped, slidingttl.Options[session]{Now: clock.Now})
	count("Touch by key where the cap binds", touch(late), "GetItem", "UpdateItem")
	count("Touch by key at the cap", touch(late), "GetItem")
	if _, err := late.Get(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	count("Get at the cap", nil, "GetItem")
	clock.forward(time.Hour)
	if _, err := late.Get(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Fatalf("past the cap: %v", err)
	}
	count("Get past the cap", nil, "GetItem")

	// Adoption.
	tbl.put(t, "foreign", attrs{"user": text("one")})
	_, err = s.Get(ctx, "foreign")
	count("Get of another program's item", err, "GetItem", "UpdateItem")
	tbl.put(t, "foreign", attrs{"user": text("one")})
	_, err = s.Touch(ctx, "foreign")
	count("Touch by key of another program's item", err, "GetItem", "UpdateItem")

	// Many at once.
	var keys, want []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("k", i))
		if err := s.Insert(ctx, keys[i], session{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, "UpdateItem")
	}
	tbl.wire.reset()
	_, err = s.GetMulti(ctx, keys)
	count("GetMulti, not due", err, "BatchGetItem")
	clock.forward(4 * time.Minute)
	_, err = s.GetMulti(ctx, keys)
	count("GetMulti, due", err, append(want, "BatchGetItem")...)
}

// TestBackgroundTouch shows that a read does not wait for its touch.
func TestBackgroundTouch(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	clock := handsAt(base)
	s := openStore(t, tbl.Driver, policy, slidingttl.Options[session]{Now: clock.Now, Touches: slidingttl.Background})
	if err := s.Insert(ctx, "k", session{}); err != nil {
		t.Fatal(err)
	}
	clock.forward(4 * time.Minute)
	tbl.wire.reset()
	release := make(chan struct{})
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		if op == "UpdateItem" {
			<-release
		}
		return send()
	})
	if _, err := s.Get(ctx, "k"); err != nil { // returns though no touch does
		t.Fatal(err)
	}
	close(release)
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Get, due, in the background", "GetItem", "UpdateItem")
	if e := tbl.mustGet(t, "k"); e.ExpiresAt != base.Add(4*time.Minute+policy.IdleGrace+policy.Slack) {
		t.Errorf("stored after Close: %+v", e.Meta)
	}
}

// TestClocksApart: two app servers whose clocks are 5 s apart use the same records. Neither
// shortens what the other promised, and they disagree on deaths by 5 s at most.
func TestClocksApart(t *testing.T) {
	const apart = 5 * time.Second
	p := slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: 10 * time.Minute}
	tbl := open[session](t, nil)
	ctx := t.Context()
	slow, fast := handsAt(base), handsAt(base.Add(apart))
	slowStore := openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: slow.Now})
	fastStore := openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: fast.Now})
	forward := func(d time.Duration) { slow.forward(d); fast.forward(d) }
	read := func(what string, s *slidingttl.Store[session], alive bool) {
		t.Helper()
		_, err := s.Get(ctx, "k")
		if alive && err != nil || !alive && !errors.Is(err, slidingttl.ErrNotFound) {
			t.Fatalf("%s: %v, want alive: %t", what, err, alive)
		}
	}

	if err := slowStore.Insert(ctx, "k", session{}); err != nil {
		t.Fatal(err)
	}
	promised := driver.Instant(0)
	for i := range 20 { // in turns: the one behind has nothing to add to what the other wrote
		forward(2 * time.Second)
		if i%2 == 0 {
			read("the fast one", fastStore, true)
		} else {
			read("the slow one", slowStore, true)
		}
		e := tbl.mustGet(t, "k")
		if e.ExpiresAt < promised || e.CreatedAt != base {
			t.Fatalf("read %d shortened a promise of %d: %+v", i+1, promised, e.Life)
		}
		promised = e.ExpiresAt
	}
	// Dead by the clock ahead, alive by the one behind for as long as they differ.
	forward(promised.Sub(driver.Floor(fast.Now())))
	if _, err := fastStore.Peek(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("the fast one after the expiry: %v", err)
	}
	if _, err := slowStore.Peek(ctx, "k"); err != nil {
		t.Errorf("the slow one before the expiry: %v", err)
	}
	forward(apart)
	read("the slow one after the expiry", slowStore, false)

	// The one behind may read a record whose created_at is in its future.
	if err := fastStore.Upsert(ctx, "k", session{User: "two"}); err != nil {
		t.Fatal(err)
	}
	read("the slow one, of a record from its future", slowStore, true)
}

// TestStaleReadNearDeath: eventually consistent reads are ten seconds stale, for a record that
// was touched just before its death.
func TestStaleReadNearDeath(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	clock := handsAt(base)
	p := slidingttl.Policy{IdleGrace: 10 * time.Second, MaxLifetime: time.Hour}
	s := openStore(t, tbl.Driver, p, slidingttl.Options[session]{Now: clock.Now})
	other := openStore(t, tbl.again(t, nil), p, slidingttl.Options[session]{Now: clock.Now}) // has seen nothing
	if err := s.Insert(ctx, "k", session{User: "one"}); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Insert", "PutItem")
	var stale atomic.Pointer[string]
	tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
		asked, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(asked))
		if op != "GetItem" || strings.Contains(string(asked), `"ConsistentRead":true`) {
			return send()
		}
		if was := stale.Load(); was != nil {
			return answer(req, 200, *was), nil
		}
		resp, err := send()
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		was := string(body)
		stale.Store(&was)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	})
	clock.forward(9900 * time.Millisecond)
	if _, err := s.Get(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	clock.forward(200 * time.Millisecond)
	tbl.wire.want(t, "the read that touches", "GetItem", "UpdateItem")
	if v, err := other.Get(ctx, "k"); err != nil || v.User != "one" {
		t.Fatalf("0.2 s after a touch: %+v, %v", v, err)
	}
	tbl.wire.want(t, "the read of what seems dead", "GetItem", "GetItem", "UpdateItem")
	clock.forward(25 * time.Second)
	if _, err := other.Get(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("after its death: %v", err)
	}
}

// TestStoreCheck: the store's Check asks DynamoDB.
func TestStoreCheck(t *testing.T) {
	d := unmade(t, nil)
	s := openStore(t, d.Driver, policy, slidingttl.Options[session]{})
	var missing *types.ResourceNotFoundException
	if err := s.Check(t.Context()); !errors.As(err, &missing) {
		t.Errorf("a missing table: %v", err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
