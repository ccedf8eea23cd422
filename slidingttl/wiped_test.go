package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// An Upsert that wipes a row is served by no touch of what was there before, whose answer is late.
func TestSaveBehindALateAnswer(t *testing.T) {
	for _, slack := range []time.Duration{0, 5 * time.Minute} {
		for _, how := range []string{"upsert", "get", "cut upsert"} {
			bubble(t, func(t *testing.T) {
				under := newFlat[profile]()
				d := over[profile](under)
				slow := lateTouch(d)
				p := session
				p.Slack = slack
				s := open[profile](t, d, p, nil)
				w, err := slidingttl.Wrap(flatProfiles{under}, s, profileKey, nil)
				must(t, err)
				must(t, flatProfiles{under}.Upsert(t.Context(), 1, profile{Name: "ann"}))
				slow.Store(true)
				switch how {
				case "get":
					_, err := w.Get(t.Context(), 1)
					must(t, err)
				case "cut upsert":
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					_ = w.Upsert(ctx, 1, profile{Name: "ann"})
				default:
					go w.Upsert(context.Background(), 1, profile{Name: "ann"})
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(100 * time.Millisecond)
				err = w.Upsert(t.Context(), 1, profile{Name: "bob"})
				if e := under.at(profileKey(1)); err == nil && e.ExpiresAt == 0 {
					t.Errorf("%s, slack %v: nil, but it is %+v", how, slack, e)
				}
				time.Sleep(time.Minute)
				if e := under.at(profileKey(1)); e.ExpiresAt == 0 {
					t.Errorf("%s, slack %v: after a minute it is %+v", how, slack, e)
				}
			})
		}
	}
}

// A Get of a row that another process has wiped is served by no touch whose late answer comes while the Get reads.
func TestGetReadsBehindALateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		slow := lateTouch(d)
		late := d.after
		d.after = func(op, key string) {
			if late(op, key); op == "get" && under.at(profileKey(1)).Value.Name == "bob" {
				time.Sleep(3 * time.Second)
			}
		}
		p := session
		p.Slack = 5 * time.Minute
		w := wrapOf(t, open[profile](t, d, p, nil), flatProfiles{under})
		must(t, flatProfiles{under}.Upsert(t.Context(), 1, profile{Name: "ann"}))
		slow.Store(true)
		_, err := w.Get(t.Context(), 1)
		must(t, err)
		must(t, flatProfiles{under}.Upsert(t.Context(), 1, profile{Name: "bob"}))
		_, err = w.Get(t.Context(), 1)
		must(t, err)
		time.Sleep(time.Minute)
		if e := under.at(profileKey(1)); e.ExpiresAt == 0 {
			t.Errorf("a minute after a Get it is %+v", e)
		}
	})
}

// A TouchEntry of a row that a touch under way adopts is served by that touch.
func TestTouchEntryBesideAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		slow := lateTouch(d)
		s := open[int](t, d, session, nil)
		under.plant("k", 1, driver.Meta{})
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		slow.Store(true)
		go func() { _, _ = s.Get(context.Background(), "k") }()
		time.Sleep(100 * time.Millisecond)
		e, err = s.TouchEntry(t.Context(), "k", e)
		must(t, err)
		time.Sleep(time.Minute)
		if n := s.Stats().TouchLost; n != 0 {
			t.Errorf("TouchEntry returns %+v; %d touches are lost", e.Meta, n)
		}
	})
}

// A touch that ends without a write has replaced nothing, and serves no Upsert that has wiped the row.
func TestSaveBehindATouchThatNeedNotWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		var lose, slow atomic.Bool
		d.after = func(op, _ string) {
			if op == "get" && slow.CompareAndSwap(true, false) {
				time.Sleep(2 * time.Second)
			}
		}
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" && lose.CompareAndSwap(true, false) {
				return errDown
			}
			return nil
		}
		p := session
		p.Slack = 5 * time.Minute
		s := open[profile](t, d, p, nil)
		w := wrapOf(t, s, flatProfiles{under})
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(20 * time.Minute)
		lose.Store(true)
		_, err := w.Get(t.Context(), 1) // its touch fails, and is tried again in a second
		must(t, err)
		time.Sleep(900 * time.Millisecond)
		// another process touches it meanwhile
		e := under.at(profileKey(1))
		e.ExpiresAt = instant(time.Now().Add(35 * time.Minute))
		under.plant(profileKey(1), e.Value, e.Meta)
		slow.Store(true) // the read of the touch
		time.Sleep(200 * time.Millisecond)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		if e := under.at(profileKey(1)); e.ExpiresAt == 0 {
			t.Errorf("nil, but it is %+v", e)
		}
	})
}

// A touch that runs while its row is deleted for good, and fails, is not tried again on the next row.
func TestTouchEndsWithItsRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		var fail atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" && fail.CompareAndSwap(true, false) {
				return errors.Join(sleep(ctx, 2*time.Second), errDown)
			}
			return nil
		}
		s := open[int](t, d, session, nil)
		under.plant("k", 1, driver.Meta{})
		fail.Store(true)
		read(t, s, "k")
		must(t, s.Delete(t.Context(), "k"))
		time.Sleep(100 * time.Millisecond)
		under.plant("k", 2, driver.Meta{}) // another program's, which never expires, and nobody reads
		time.Sleep(time.Minute)
		if e := under.at("k"); e.ExpiresAt != 0 {
			t.Errorf("nobody has accessed it: %+v", e)
		}
	})
}

// Nor does it take what the value of the next row tells.
func TestTouchOfADeletedRowTakesNoToldCreation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		var fail, slow atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			switch {
			case op == "touch" && fail.CompareAndSwap(true, false):
				_ = sleep(ctx, 2*time.Second)
				return errDown
			case op == "get" && slow.CompareAndSwap(true, false):
				return sleep(ctx, 600*time.Millisecond)
			}
			return nil
		}
		s := open[profile](t, d, session, nil)
		w, err := slidingttl.Wrap(flatProfiles{under}, s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: func(p profile) time.Time { return p.Created }})
		must(t, err)
		must(t, flatProfiles{under}.Upsert(t.Context(), 1, profile{Name: "ann"}))
		fail.Store(true)
		_, err = w.Get(t.Context(), 1)
		must(t, err)
		must(t, w.Delete(t.Context(), 1)) // it waits for the touch, which fails
		time.Sleep(800 * time.Millisecond)
		born := time.Now().Add(-11 * time.Hour)
		slow.Store(true) // the read after the write
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob", Created: born}))
		if c := under.at(profileKey(1)).CreatedAt; c != instant(born) {
			t.Errorf("created_at is %v after what the value tells", c.Sub(instant(born)))
		}
	})
}

// A Get that ended before a deletion began came before it, in the same millisecond too.
func TestGetAndDeleteInOneMillisecond(t *testing.T) {
	for _, apart := range []time.Duration{200 * time.Microsecond, 1200 * time.Microsecond} {
		t.Run(apart.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				under := newFlat[int]()
				d := over[int](under)
				d.trip = 50 * time.Microsecond
				fail := failTouches(d, all)
				s := open(t, d, session, nil)
				under.plant("k", 1, driver.Meta{})
				fail(true)
				time.Sleep(100 * time.Microsecond)
				read(t, s, "k") // returns before Delete begins
				time.Sleep(apart)
				must(t, s.Delete(context.Background(), "k"))
				time.Sleep(100 * time.Millisecond)
				under.plant("k", 2, driver.Meta{}) // by another program
				fail(false)
				time.Sleep(time.Minute)
				if e := under.at("k"); e.Meta != (driver.Meta{}) {
					t.Errorf("%v after a Get: a row that nobody has read has %+v", apart, e.Meta)
				}
				time.Sleep(time.Hour)
				if _, err := s.Get(t.Context(), "k"); err != nil {
					t.Errorf("%v after a Get: the row, which had no expiry: %v", apart, err)
				}
			})
		})
	}
}

// A save that came after a deletion began is not of the row that this deleted, by a clock of whole seconds too.
func TestSaveAndDeletionInOneSecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		var slow atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" && slow.Load() {
				return sleep(ctx, 3*time.Second)
			}
			return nil
		}
		d.after = func(op, _ string) {
			if op == "delete" {
				time.Sleep(100 * time.Millisecond)
			}
		}
		s := open[profile](t, d, session, &slidingttl.Options[profile]{Now: func() time.Time { return time.Now().Truncate(time.Second) }})
		w, err := slidingttl.Wrap(flatProfiles{under}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(20 * time.Minute)
		slow.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_ = w.Upsert(ctx, 1, profile{Name: "ann"})
		deleted := make(chan error, 1)
		go func() { deleted <- w.Delete(context.Background(), 1) }()
		time.Sleep(10 * time.Millisecond) // it has taken effect
		// as a save that another deletion's answer precedes: the row is there before the save reads
		must(t, flatProfiles{under}.Upsert(t.Context(), 1, profile{Name: "eve"}))
		err = w.Upsert(t.Context(), 1, profile{Name: "bob"})
		if e := under.at(profileKey(1)); err == nil && e.ExpiresAt == 0 {
			t.Errorf("nil, but it is %+v", e)
		}
		must(t, <-deleted)
	})
}

// slowBatch answers GetMulti late.
type slowBatch struct {
	flatProfiles
	hides *atomic.Bool // what it has
}

func (m slowBatch) GetMulti(ctx context.Context, ids []int) (map[int]profile, error) {
	all := map[int]profile{}
	if m.hides.Load() {
		return all, nil
	}
	for _, id := range ids {
		if v, err := m.Get(ctx, id); err == nil {
			all[id] = v
		}
	}
	time.Sleep(time.Second)
	return all, nil
}

// An id that is deleted while GetMulti reads is left out, and so is one that the repository then leaves out.
func TestGetMultiBesideADeletion(t *testing.T) {
	for _, reborn := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			repo := slowBatch{flatProfiles{r.under}, new(atomic.Bool)}
			w, err := slidingttl.Wrap(repo, r.s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: func(profile) time.Time { return time.Now().Add(-time.Hour) }})
			must(t, err)
			go func() {
				time.Sleep(500 * time.Millisecond)
				_ = w.Delete(context.Background(), 1)
				if reborn {
					_ = repo.Upsert(context.Background(), 1, profile{Name: "bob"}) // by another program
					repo.hides.Store(true)
				}
			}()
			all, err := w.GetMulti(t.Context(), []int{1, 2})
			if _, there := all[1]; err != nil || there {
				t.Errorf("reborn %v: GetMulti beside the deletion: %v, %v", reborn, all, err)
			}
		})
	}
}

// losing writes, and loses the answer.
type losing struct {
	flatProfiles
	lose *atomic.Bool
}

func (l losing) Upsert(ctx context.Context, id int, v profile) error {
	l.plant(profileKey(id), v, driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(5 * time.Minute))}})
	if l.lose.Load() {
		return errDown // the answer is lost
	}
	return nil
}

// A save whose answer was lost leaves nothing remembered of the row before, so that a Get mends its expiry.
func TestGetAfterALostSave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		var lose atomic.Bool
		s := open[profile](t, d, session, nil)
		w := wrapOf(t, s, losing{flatProfiles{under}, &lose})
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		lose.Store(true)
		wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}), errDown)
		_, err := w.Get(t.Context(), 1)
		must(t, err)
		time.Sleep(10 * time.Minute)
		if _, err = w.Get(t.Context(), 1); err != nil {
			t.Errorf("ten minutes after a Get: %v; %+v", err, s.Stats())
		}
		_, err = s.Get(t.Context(), profileKey(1))
		if err != nil {
			t.Errorf("ten minutes after a Get: %v; %+v", err, s.Stats())
		}
	})
}

func wrapOf(t *testing.T, s *slidingttl.Store[profile], repo slidingttl.Repository[int, profile]) *slidingttl.Wrapped[int, profile, profile] {
	t.Helper()
	w, err := slidingttl.Wrap(repo, s, profileKey, nil)
	must(t, err)
	return w
}

// leaves is a repository whose writes take the life off a row, and whose caller leaves after each Upsert.
type leaves struct {
	hoard  *hoard[int]
	caller context.CancelFunc
}

func (r leaves) Get(ctx context.Context, id string) (int, error) {
	e, err := r.hoard.Get(ctx, id)
	return e.Value, err
}

func (r leaves) Upsert(_ context.Context, id string, v int) error {
	r.hoard.Plant(id, v, driver.Life{})
	if r.caller != nil {
		r.caller()
	}
	return nil
}

func (r leaves) Insert(_ context.Context, id string, v int) error {
	r.hoard.Plant(id, v, driver.Life{})
	return nil
}

func (r leaves) Delete(ctx context.Context, id string) error { return r.hoard.Delete(ctx, id) }

func wrapLeaves(t *testing.T, s *slidingttl.Store[int], repo leaves, opts *slidingttl.WrapOptions[int]) *slidingttl.Wrapped[string, int, int] {
	t.Helper()
	w, err := slidingttl.Wrap[string, int](repo, s, func(id string) string { return id }, opts)
	must(t, err)
	return w
}

// A save keeps created_at if its caller leaves before its touch, and in a queue that is full.
func TestSaveKeepsTheLifeAlone(t *testing.T) {
	for _, how := range []string{"the caller leaves", "a full queue"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = time.Millisecond
				s := open(t, d, session, &slidingttl.Options[int]{Queue: 10})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				repo := leaves{hoard: under}
				if how == "the caller leaves" {
					repo.caller = cancel
				}
				w := wrapLeaves(t, s, repo, nil)
				must(t, s.Insert(ctx, "k", 1))
				born := stored(t, under, "k").CreatedAt
				var down atomic.Bool
				inner := d.Handle
				d.Handle = func(c *fakestore.Call[int]) {
					if c.Op == fakestore.Touch && down.Load() {
						c.Err = errDown
						return
					}
					inner(c)
				}
				time.Sleep(session.IdleGrace / 3)
				if how == "a full queue" {
					down.Store(true)
					for i := range 20 {
						must(t, s.Insert(ctx, fmt.Sprint("other", i), 1))
					}
					time.Sleep(time.Second)
					for i := range 20 {
						_, err := s.Get(ctx, fmt.Sprint("other", i))
						must(t, err)
					}
				}
				_ = w.Upsert(ctx, "k", 2)
				down.Store(false)
				time.Sleep(session.IdleGrace / 3)
				_, err := w.Get(t.Context(), "k")
				must(t, err)
				if e := stored(t, under, "k"); e.Value != 2 || e.CreatedAt != born {
					t.Errorf("created_at is %v later than it was", e.CreatedAt.Sub(born))
				}
			})
		})
	}
}

// What a caller does after a save that ended with its context comes after that save: a new record is given no earlier life.
func TestSaveThatItsCallerLeft(t *testing.T) {
	for name, opts := range map[string]*slidingttl.WrapOptions[int]{
		"read": nil,
		"told": {CreatedAt: func(v int) (at time.Time) {
			if v != 3 {
				at = time.Now().Add(-session.IdleGrace)
			}
			return at
		}},
	} {
		t.Run(name, func(t *testing.T) { saveThatItsCallerLeft(t, opts) })
	}
}

func saveThatItsCallerLeft(t *testing.T, opts *slidingttl.WrapOptions[int]) {
	type mark struct{}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, true))
		defer cancel()
		d.before = func(call context.Context, op, _ string) error {
			if op == "get" && ctx.Err() != nil && call.Value(mark{}) == nil { // the Insert's
				return sleep(call, 5*time.Millisecond)
			}
			return nil
		}
		w := wrapLeaves(t, open(t, d, session, nil), leaves{under, cancel}, opts)
		must(t, w.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace / 2)
		wantErr(t, w.Upsert(ctx, "k", 2), context.Canceled)
		must(t, w.Delete(t.Context(), "k"))
		began := instant(time.Now())
		must(t, w.Insert(t.Context(), "k", 3))
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.Value != 3 || e.CreatedAt < began {
			t.Errorf("the new record, %d, has the created_at of the deleted one", e.Value)
		}
	})
}

// A store that hangs has a bounded number of calls under way for callers who have left. What they leave undone is counted.
func TestSavesThatGoOnAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var calls crowd
		d.before = func(ctx context.Context, _, _ string) error {
			defer calls.enter()()
			return hangs(ctx)
		}
		s := open(t, d, session, nil)
		w := wrapLeaves(t, s, leaves{hoard: under},
			&slidingttl.WrapOptions[int]{CreatedAt: func(int) time.Time { return time.Now() }})
		for i := range 2000 { // one after the other, of one caller
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			wantErr(t, w.Upsert(ctx, fmt.Sprint(i), 1), context.DeadlineExceeded)
			cancel()
		}
		if n := calls.most.Load(); n > 64+1 {
			t.Errorf("%d calls were under way at once", n)
		}
		time.Sleep(time.Minute)
		if n := s.Stats().TouchFails; n != 2000 {
			t.Errorf("of 2,000 touches that were not made %d are counted", n)
		}
	})
}

// A save beside Close returns with its context too, and Close waits for what goes on.
func TestSaveThatItsCallerLeftBesideClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		slow := true
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "get" && slow {
				slow = false
				return hangs(ctx)
			}
			return sleep(ctx, 100*time.Millisecond)
		}
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		born := time.Now().Add(-session.IdleGrace)
		w := wrapLeaves(t, s, leaves{hoard: under}, &slidingttl.WrapOptions[int]{CreatedAt: func(int) time.Time { return born }})
		ctx, cancel := context.WithCancel(t.Context())
		saved := make(chan error, 1)
		go func() { saved <- w.Upsert(ctx, "k", 1) }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- s.Close(context.Background()) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-saved:
			wantErr(t, err, context.Canceled)
		default:
			t.Error("Upsert outlives its context")
		}
		must(t, <-closed)
		if e := stored(t, under, "k"); e.CreatedAt != instant(born) {
			t.Error("Close did not wait for what the save had left")
		}
	})
}
