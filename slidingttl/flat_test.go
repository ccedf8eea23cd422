package slidingttl_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// flat is a store as SQL, DynamoDB and Cosmos DB are: a touch keeps the version, and what another program
// has written has none.
type flat[T any] struct {
	fakestore.Driver[T]
	mu      sync.Mutex
	records map[string]*driver.Entry[T]
	last    driver.Version
}

func newFlat[T any]() *flat[T] {
	s := &flat[T]{records: make(map[string]*driver.Entry[T])}
	s.Step, s.Handle = time.Millisecond, s.do
	return s
}

func (s *flat[T]) do(c *fakestore.Call[T]) {
	if c.Err = c.Ctx.Err(); c.Err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, writes := c.Apply(s.records[c.Key], s.last+1, fakestore.Rules{}); !writes {
		return
	} else if is == nil {
		delete(s.records, c.Key)
	} else {
		s.last, s.records[c.Key] = max(s.last, is.Version), is
	}
}

// plant writes as another program does.
func (s *flat[T]) plant(key string, v T, m driver.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[key] = &driver.Entry[T]{Value: v, Meta: m}
}

func (s *flat[T]) at(key string) driver.Entry[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.records[key]; e != nil {
		return *e
	}
	return driver.Entry[T]{}
}

// flatProfiles is a repository whose overwrites take the life off a row.
type flatProfiles struct{ *flat[profile] }

func (p flatProfiles) Get(_ context.Context, id int) (profile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.records[profileKey(id)]; e != nil {
		return e.Value, nil
	}
	return profile{}, errNoProfile
}

func (p flatProfiles) Upsert(_ context.Context, id int, v profile) error {
	p.plant(profileKey(id), v, driver.Meta{})
	return nil
}

// A deletion waits for no touch of a record with created_at: no other one is taken for it.
func TestDeletionBesideATouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 5*time.Second)
			}
			return nil
		}
		s := open(t, d, session, nil)
		plant(under, "k", time.Minute)
		read(t, s, "k")
		began := time.Now()
		must(t, s.Delete(t.Context(), "k"))
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A read and touch in one whose answer is late serves no save over its row.
func TestReadTouchBesideASave(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			under := newFlat[profile]()
			d := over[profile](under)
			d.Has = []any{(*driver.ReadToucher[profile])(nil)}
			var slow atomic.Bool
			d.after = func(op, _ string) {
				if op == fakestore.ReadTouch && slow.CompareAndSwap(true, false) {
					time.Sleep(2 * time.Second)
				}
			}
			s, w := wrapOver(t, d, flatProfiles{under}, nil, false)
			now := instant(time.Now())
			under.plant(profileKey(1), profile{Name: "ann"}, driver.Meta{Life: driver.Life{CreatedAt: now.Add(-20 * time.Minute), ExpiresAt: now.Add(10 * time.Minute)}})
			_, err := w.Get(t.Context(), 1)
			must(t, err)
			time.Sleep(time.Minute)
			slow.Store(true)
			_, err = w.Get(t.Context(), 1)
			must(t, err)
			if deletes {
				must(t, s.Delete(t.Context(), profileKey(1)))
			}
			must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
			if e := under.at(profileKey(1)); e.ExpiresAt == 0 {
				t.Errorf("deleted %t: it is %+v", deletes, e)
			}
		})
	}
}

// A touch that finds its row deleted says nothing of the row saved meanwhile.
func TestLostTouchOfARowIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		_, w := wrapOver(t, d, flatProfiles{under}, nil, false)
		slow := lateTouch(d)
		must(t, flatProfiles{under}.Upsert(t.Context(), 1, profile{Name: "ann"}))
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" && slow.Load() {
				must(t, under.Delete(context.Background(), profileKey(1)))
			}
			return nil
		}
		slow.Store(true)
		_, err := w.Get(t.Context(), 1)
		must(t, err)
		reborn := instant(time.Now())
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		if e := under.at(profileKey(1)); e.CreatedAt < reborn {
			t.Errorf("created_at is %v before the save", reborn.Sub(e.CreatedAt))
		}
	})
}

// A save after the cap begins a life, though the touch of the save before it is still to be made.
func TestSaveAfterTheCapOfACarriedLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		fail := failTouches(d, all)
		_, w := wrapOver(t, d, flatProfiles{under}, nil, false)
		born := time.Now()
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		keepToTheCap(t, w, born)
		time.Sleep(session.MaxLifetime - time.Since(born) - 50*time.Millisecond)
		fail(true)
		wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
		time.Sleep(100 * time.Millisecond)
		fail(false)
		reborn := instant(time.Now())
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		time.Sleep(time.Minute)
		if _, err := w.Get(t.Context(), 1); err != nil || under.at(profileKey(1)).CreatedAt != reborn {
			t.Errorf("Get %v, created_at is %v before the save", err, reborn.Sub(under.at(profileKey(1)).CreatedAt))
		}
	})
}

// A save that reads the life just before its cap and writes after it begins a life.
func TestSaveOverTheCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		_, w := wrapOver(t, d, profiles{under}, nil, false)
		born := time.Now()
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		keepToTheCap(t, w, born)
		d.trip = 20 * time.Millisecond
		time.Sleep(session.MaxLifetime - time.Since(born) - 50*time.Millisecond)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		if e := stored(t, under, profileKey(1)); e.CreatedAt < instant(born.Add(session.MaxLifetime)) {
			t.Errorf("created_at is %v before the cap", instant(born.Add(session.MaxLifetime)).Sub(e.CreatedAt))
		}
	})
}

// A save whose record is deleted and saved by another process before its touch leaves that record alone.
func TestSaveAdoptsNoOthersSave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		_, w := wrapOver(t, d, profiles{under}, nil, true)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				must(t, under.Delete(t.Context(), profileKey(1)))
			}
			return nil
		}
		d.after = func(op, _ string) {
			if op == "touch" {
				under.Plant(profileKey(1), profile{Name: "other"}, driver.Life{})
			}
		}
		must(t, w.Upsert(t.Context(), 1, profile{"mine", time.Now()}))
		time.Sleep(time.Minute)
		if e := stored(t, under, profileKey(1)); e.CreatedAt != 0 {
			t.Errorf("another's record has created_at %v", e.CreatedAt)
		}
	})
}

// A record whose program moves its expiry, and keeps its version, is adopted by a touch that comes after that.
func TestAdoptionOfWhatItsProgramRenews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		renew := func() {
			under.plant("k", 1, driver.Meta{Version: 7, Life: driver.Life{ExpiresAt: instant(time.Now().Add(29 * time.Minute))}})
		}
		renew()
		var once sync.Once
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				once.Do(func() { time.Sleep(time.Second); renew() })
			}
			return nil
		}
		s := open(t, d, session, nil)
		read(t, s, "k")
		time.Sleep(time.Minute)
		if under.at("k").CreatedAt == 0 {
			t.Error("it was not adopted")
		}
	})
}

// The failure of a touch whose record seems dead is not shared with an access that has read it alive.
func TestFailureOfWhatSeemsDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		others := open(t, over[int](under), session, nil)
		must(t, others.Insert(t.Context(), "k", 1))
		start := time.Now()
		time.Sleep(time.Second)
		var hung atomic.Int32
		var cut, whole atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			switch {
			case whole.Load() || op == "get" && !cut.Load():
				return nil
			case !cut.Load():
				return errDown
			}
			hung.Add(1)
			defer hung.Add(-1)
			return hangs(ctx)
		}
		read(t, s, "k")
		cut.Store(true)
		time.Sleep(15 * time.Minute)
		read(t, others, "k")
		for time.Since(start) < 30*time.Minute+2*time.Second || hung.Load() == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		whole.Store(true) // but a retry still waits for its answer
		time.Sleep(time.Second)
		read(t, s, "k")
		promised := instant(time.Now().Add(session.IdleGrace))
		time.Sleep(20 * time.Second)
		if e := stored(t, under, "k"); e.ExpiresAt < promised {
			t.Errorf("it dies %v before what its read promised", promised.Sub(e.ExpiresAt))
		}
	})
}

// A late touch of another program's row leaves the next one alone, which a later expiry tells from it.
func TestLateTouchOfARowLeavesItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		fail := failTouches(d, all)
		fail(true)
		s := open(t, d, session, nil)
		under.plant("k", 1, driver.Meta{})
		read(t, s, "k")
		time.Sleep(20 * time.Minute)
		next := driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(2 * time.Hour))}}
		under.plant("k", 2, next)
		fail(false)
		time.Sleep(time.Minute)
		if e := under.at("k"); e.Meta != next {
			t.Errorf("a row that nobody has read has %+v", e.Meta)
		}
	})
}

// lateTouch makes the answer of the next touch 2 s late, once slow is set.
func lateTouch[T any](d *remote[T]) (slow *atomic.Bool) {
	slow = new(atomic.Bool)
	d.after = func(op, _ string) {
		if op == "touch" && slow.CompareAndSwap(true, false) {
			time.Sleep(2 * time.Second)
		}
	}
	return slow
}
