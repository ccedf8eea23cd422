package slidingttl_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// row is a row of a wrapped repository whose saves wipe its life, and whose touches do as told.
type row struct {
	*slidingttl.Wrapped[int, profile, profile]
	s     *slidingttl.Store[profile]
	d     *remote[profile]
	under *flat[profile]
	touch atomic.Pointer[func(context.Context) error]

	before       time.Duration // how long a deletion takes to have effect
	refuseDelete atomic.Bool
	loseDelete   atomic.Bool // its answer
}

func (r *row) touches(f func(context.Context) error) { r.touch.Store(&f) }

func (r *row) created() driver.Instant { return r.under.at(profileKey(1)).CreatedAt }

// newRow returns a row saved once, 20 minutes ago, over a repository that repo makes.
func newRow(t *testing.T, repo func(flatProfiles) slidingttl.Repository[int, profile]) *row {
	t.Helper()
	r := &row{under: newFlat[profile]()}
	r.d = over[profile](r.under)
	r.touches(func(context.Context) error { return nil })
	r.d.before = func(ctx context.Context, op, _ string) error {
		switch op {
		case "touch":
			return (*r.touch.Load())(ctx)
		case "delete":
			if r.refuseDelete.Load() {
				return errDown
			}
			if r.loseDelete.Load() {
				return errors.Join(r.under.Delete(ctx, profileKey(1)), driver.ErrAmbiguous)
			}
			return sleep(ctx, r.before)
		}
		return nil
	}
	s, err := slidingttl.New[profile](r.d, session, nil)
	must(t, err)
	if repo == nil {
		repo = func(p flatProfiles) slidingttl.Repository[int, profile] { return p }
	}
	r.s = s
	r.Wrapped, err = slidingttl.Wrap(repo(flatProfiles{r.under}), s, profileKey, nil)
	must(t, err)
	must(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}))
	time.Sleep(20 * time.Minute)
	return r
}

// saveAgain saves the row after what has ended its life, and checks that this begins one.
func (r *row) saveAgain(t *testing.T, after string) {
	t.Helper()
	r.touches(func(context.Context) error { return nil })
	reborn := instant(time.Now())
	must(t, r.Upsert(t.Context(), 1, profile{Name: "bob"})) // which may wait for a touch
	saved := instant(time.Now())
	time.Sleep(time.Minute)
	if c := r.created(); c < reborn || c > saved {
		t.Errorf("after %s created_at is %v before the save", after, reborn.Sub(c))
	}
}

// saveBriefly saves the row, and waits 100 ms for its touch.
func (r *row) saveBriefly(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = r.Upsert(ctx, 1, profile{Name: "ann"})
}

// bornSince checks that the row's created_at is not before what was at that time.
func (r *row) bornSince(t *testing.T, at driver.Instant, what string) {
	t.Helper()
	if c := r.created(); c < at {
		t.Errorf("created_at is %v before %s", at.Sub(c), what)
	}
}

// close closes the store, and checks that each touch is counted once.
func (r *row) close(t *testing.T) {
	t.Helper()
	must(t, r.s.Close(t.Context()))
	st := r.s.Stats()
	if ended := st.Touched + st.Shared + st.TouchLost + st.Deferred + st.TouchFails + st.Shed; ended != st.Due+st.Retried {
		t.Errorf("%d touches ended, of %d due and %d tried again", ended, st.Due, st.Retried)
	}
}

func refused(context.Context) error { return errDown }

// A deletion waits for a touch under way that could not tell the record from the next one, and no later
// one of that record is sent, whatever the deletion's answer.
func TestDeletionEndsTheTouchesOfARow(t *testing.T) {
	for how, during := range map[string]func(context.Context) error{
		"slow":                     func(ctx context.Context) error { return sleep(ctx, 2*time.Second) },
		"hangs":                    hangs,
		"fails":                    refused,
		"fails, no answer arrives": refused,
		"fails, ambiguous":         refused,
	} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			r.touches(during)
			r.saveBriefly(t)
			switch { // before a touch is tried again
			case strings.HasSuffix(how, "no answer arrives"):
				r.d.after = func(op, _ string) {
					if op == "delete" {
						time.Sleep(600 * time.Millisecond)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				wantErr(t, r.Delete(ctx, 1), context.DeadlineExceeded)
			case strings.HasSuffix(how, "ambiguous"):
				r.loseDelete.Store(true)
				wantErr(t, r.Delete(t.Context(), 1), driver.ErrAmbiguous)
			default:
				must(t, r.Delete(t.Context(), 1))
			}
			r.saveAgain(t, "a touch that "+how)
			r.close(t)
		})
	}
}

// In a transaction a deletion waits for no touch, for which that one may wait, and none of the record is
// sent again.
func TestDeletionInATransaction(t *testing.T) {
	for _, takes := range []time.Duration{0, 4500 * time.Millisecond} { // the touch fails after it, and meanwhile
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			r.before = takes
			r.touches(func(ctx context.Context) error { return cmp.Or(sleep(ctx, 2*time.Second), errDown) })
			r.saveBriefly(t)
			began := time.Now()
			must(t, r.Delete(driver.WithUndo(t.Context()), 1))
			if took := time.Since(began); took > takes+time.Second {
				t.Errorf("it took %v", took)
			}
			r.saveAgain(t, fmt.Sprint("a deletion of ", takes))
			r.close(t)
		})
	}
}

// A deletion that fails takes nothing off the record: its touch is still tried again.
func TestFailedDeletionEndsNoTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		born := r.created()
		r.touches(refused)
		r.refuseDelete.Store(true)
		wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
		wantErr(t, r.Delete(t.Context(), 1), errDown)
		_, err := r.Get(t.Context(), 1)
		must(t, err)
		r.touches(func(context.Context) error { return nil })
		time.Sleep(time.Minute)
		if c := r.created(); c != born {
			t.Errorf("created_at has moved by %v", c.Sub(born))
		}
		r.close(t)
	})
}

// A deletion whose answer is late takes nothing off what was written after it took effect.
func TestLateDeletionEndsNoLaterTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		r.touches(refused)
		wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
		r.d.after = func(op, _ string) {
			if op == "delete" {
				time.Sleep(5 * time.Second)
			}
		}
		done := make(chan error)
		go func() { done <- r.s.Delete(context.Background(), profileKey(1)) }()
		time.Sleep(500 * time.Millisecond)
		reborn := instant(time.Now())
		wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "bob"}), errDown)
		must(t, <-done)
		r.touches(func(context.Context) error { return nil })
		time.Sleep(time.Minute)
		if c := r.created(); c != reborn {
			t.Errorf("created_at is %v before the save", reborn.Sub(c))
		}
		r.close(t)
	})
}

// A deletion that finds another one done, or is refused beside it, leaves no touch to the next record.
func TestTwoDeletions(t *testing.T) {
	for _, how := range []string{"retire", "delete entry", "delete refused"} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			r.touches(refused)
			wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
			e, err := r.s.Peek(t.Context(), profileKey(1))
			must(t, err)
			r.d.after = func(op, _ string) {
				if op == "delete" {
					time.Sleep(50 * time.Millisecond)
				}
			}
			done := make(chan error)
			go func() { done <- r.s.Delete(context.Background(), profileKey(1)) }()
			time.Sleep(10 * time.Millisecond)
			r.touches(func(context.Context) error { return nil })
			switch how {
			case "retire":
				wantErr(t, r.s.Retire(t.Context(), profileKey(1)), slidingttl.ErrNotFound)
			case "delete entry":
				wantErr(t, r.s.DeleteEntry(t.Context(), profileKey(1), e), slidingttl.ErrNotFound)
			default:
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				wantErr(t, r.Delete(ctx, 1), context.Canceled)
			}
			must(t, <-done)
			r.saveAgain(t, how)
			r.close(t)
		})
	}
}

// A touch whose turn comes during a deletion is not sent.
func TestTouchWhoseTurnComesDuringADeletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		r.before = 50 * time.Millisecond
		r.touches(refused)
		wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
		time.Sleep(990 * time.Millisecond)
		r.touches(func(ctx context.Context) error { return sleep(ctx, 2*time.Second) })
		must(t, r.Delete(t.Context(), 1))
		r.saveAgain(t, "a deletion")
		r.close(t)
	})
}

// A deletion waits for a touch until its context ends, and is then done.
func TestDeletionWaitsUntilItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		r.touches(hangs)
		r.saveBriefly(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		must(t, r.Delete(ctx, 1))
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		r.saveAgain(t, "a deletion that waited for a touch")
		r.close(t)
	})
}

// A deletion waits no longer than TouchTimeout, even for a touch that heeds no context.
func TestDeletionBesideADeafTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		free := make(chan struct{})
		r.touches(func(context.Context) error { <-free; return nil })
		r.saveBriefly(t)
		began := time.Now()
		must(t, r.Delete(t.Context(), 1))
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		close(free)
		r.close(t)
	})
}

// Close ends a deletion's wait for a touch.
func TestCloseEndsADeletionsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		r.touches(func(context.Context) error { time.Sleep(4 * time.Second); return nil })
		r.saveBriefly(t)
		began, done := time.Now(), make(chan error)
		go func() { done <- r.Delete(context.Background(), 1) }()
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = r.s.Close(ctx)
		must(t, <-done)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(5 * time.Second)
	})
}

// Whoever finds a row gone ends its touches too.
func TestDeletionOfWhatIsGone(t *testing.T) {
	for how, end := range map[string]func(*row, slidingttl.Entry[profile]) error{
		"Retire": func(r *row, _ slidingttl.Entry[profile]) error {
			return r.s.Retire(context.Background(), profileKey(1))
		},
		"DeleteEntry": func(r *row, e slidingttl.Entry[profile]) error {
			return r.s.DeleteEntry(context.Background(), profileKey(1), e)
		},
	} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			r.touches(refused)
			wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
			e, err := r.s.Peek(t.Context(), profileKey(1))
			must(t, err)
			must(t, r.under.Delete(t.Context(), profileKey(1))) // by another process
			r.touches(func(context.Context) error { return nil })
			wantErr(t, end(r, e), slidingttl.ErrNotFound)
			r.saveAgain(t, how)
			r.close(t)
		})
	}
}

// What a touch that is left by a deletion adopts was born after it.
func TestTouchOfTheRecordBefore(t *testing.T) {
	for _, saves := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			r.touches(refused)
			if saves {
				wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
			} else {
				must(t, flatProfiles{r.under}.Upsert(t.Context(), 1, profile{Name: "ann"})) // by another program
				_, err := r.Get(t.Context(), 1)
				must(t, err)
			}
			time.Sleep(100 * time.Millisecond)
			ended := instant(time.Now())
			must(t, r.Delete(driver.WithUndo(t.Context()), 1))
			must(t, flatProfiles{r.under}.Upsert(t.Context(), 1, profile{Name: "bob"})) // by another program
			r.touches(func(context.Context) error { return nil })
			time.Sleep(time.Minute)
			if c := r.created(); c < ended {
				t.Errorf("saved %t: created_at is %v before the deletion", saves, ended.Sub(c))
			}
			r.close(t)
		})
	}
}

// A touch that fails while its row is being deleted, and is tried again, gives the next record no earlier life.
func TestSaveBehindADeafTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		free := make(chan struct{})
		r.touches(func(context.Context) error { <-free; return errDown })
		effect, saved := make(chan struct{}), make(chan error)
		r.d.after = func(op, _ string) {
			if op == "delete" {
				close(effect)
				time.Sleep(50 * time.Millisecond)
			}
		}
		r.saveBriefly(t)
		deleted := make(chan error)
		go func() { deleted <- r.Delete(context.Background(), 1) }()
		<-effect
		time.Sleep(10 * time.Millisecond)
		r.touches(func(context.Context) error { return nil })
		reborn := instant(time.Now())
		go func() { saved <- r.Upsert(context.Background(), 1, profile{Name: "bob"}) }()
		time.Sleep(10 * time.Millisecond)
		close(free)
		must(t, <-deleted)
		if err := <-saved; err != nil { // the deletion was not done yet
			wantErr(t, err, errDown)
		}
		time.Sleep(time.Minute)
		r.bornSince(t, reborn, "the save")
		r.close(t)
	})
}

// deleter is a repository with a Delete of its own.
type deleter struct {
	flatProfiles
	answer func() error
}

func (d deleter) Delete(_ context.Context, id int) error {
	d.mu.Lock()
	delete(d.records, profileKey(id))
	d.mu.Unlock()
	return d.answer()
}

// What a repository's Delete answers does not tell whether the row is there.
func TestRepositorysDeleteEndsTouches(t *testing.T) {
	for _, answer := range []error{nil, errNoProfile, errors.New("connection reset by peer")} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] {
				return deleter{p, func() error { return answer }}
			})
			r.touches(refused)
			wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
			if err := r.Delete(t.Context(), 1); err != answer {
				t.Error(err)
			}
			r.saveAgain(t, fmt.Sprint(answer))
			r.close(t)
		})
	}
}

// A deletion that is rolled back takes nothing off the promise of a read.
func TestDeletionRolledBack(t *testing.T) {
	for _, during := range []func(context.Context) error{refused, hangs} {
		for _, retires := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				under := newFlat[int]()
				d := over[int](under)
				var down atomic.Bool
				is := driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(5 * time.Minute))}, Version: 7}
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "touch" && down.Load() && !driver.MayUndo(ctx) {
						return during(ctx)
					}
					return nil
				}
				s := open(t, d, session, nil)
				under.plant("k", 1, is)
				down.Store(true)
				read(t, s, "k")
				if tx := driver.WithUndo(t.Context()); retires {
					must(t, s.Retire(tx, "k"))
				} else {
					must(t, s.Delete(tx, "k"))
				}
				under.plant("k", 1, is)
				down.Store(false)
				time.Sleep(10 * time.Minute)
				read(t, s, "k")
			})
		}
	}
}

// A deletion that takes long and is refused holds no touch up.
func TestSlowDeletionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		var touches atomic.Int32
		d.before = func(ctx context.Context, op, _ string) error {
			switch {
			case op == "touch" && touches.Add(1) == 1:
				return sleep(ctx, time.Second)
			case op == "delete":
				time.Sleep(20 * time.Second)
				return errDown
			}
			return nil
		}
		s := open(t, d, session, nil)
		is := driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(10 * time.Second))}}
		for is.Version = 7; is.Version < 9; is.Version++ { // its program writes it between the two reads
			under.plant("k", 1, is)
			read(t, s, "k")
		}
		wantErr(t, s.Delete(t.Context(), "k"), errDown)
		time.Sleep(time.Minute)
		read(t, s, "k")
	})
}

// A Retire that panics ends no touch.
func TestRetireThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		var fail, panics atomic.Bool
		d.before = func(_ context.Context, op, _ string) error {
			switch {
			case op == "get" && panics.Load():
				panic("decoding")
			case op == "touch" && fail.Load():
				return errDown
			}
			return nil
		}
		s := open(t, d, session, nil)
		under.plant("k", 1, driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(time.Minute))}, Version: 7})
		fail.Store(true)
		read(t, s, "k")
		panics.Store(true)
		func() {
			defer func() { _ = recover() }()
			_ = s.Retire(t.Context(), "k")
		}()
		panics.Store(false)
		fail.Store(false)
		time.Sleep(5 * time.Minute)
		read(t, s, "k")
	})
}

// A save in a transaction that finds its row gone, and is rolled back, takes nothing off the promise of a read.
func TestSaveOfWhatIsGoneRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		is := driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(5 * time.Minute))}, Version: 7}
		r.under.plant(profileKey(1), profile{Name: "ann"}, is)
		r.touches(func(ctx context.Context) error {
			if driver.MayUndo(ctx) {
				return nil
			}
			return errDown
		})
		_, err := r.s.Get(t.Context(), profileKey(1))
		must(t, err)
		time.Sleep(100 * time.Millisecond)
		must(t, r.under.Delete(t.Context(), profileKey(1)))
		must(t, r.Upsert(driver.WithUndo(t.Context()), 1, profile{Name: "bob"}))
		r.under.plant(profileKey(1), profile{Name: "ann"}, is)
		r.touches(func(context.Context) error { return nil })
		time.Sleep(10 * time.Minute)
		_, err = r.s.Get(t.Context(), profileKey(1))
		must(t, err)
		must(t, r.s.Close(t.Context()))
	})
}

// A save in a transaction does not wait for a write that is to lower the expiry: that may wait for the row's lock.
func TestSaveBesideALowering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] { return lifeKeeper{p} })
		tight := session
		tight.IdleGrace = time.Minute
		must(t, r.s.SetPolicy(tight))
		r.touches(func(ctx context.Context) error {
			if driver.MayUndo(ctx) {
				return nil
			}
			return sleep(ctx, 4*time.Second)
		})
		_, err := r.s.Get(t.Context(), profileKey(1))
		must(t, err)
		began := time.Now()
		must(t, r.Upsert(driver.WithUndo(t.Context()), 1, profile{Name: "bob"}))
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		must(t, r.s.Close(t.Context()))
	})
}

// lifeKeeper is a repository whose saves leave the life as it is.
type lifeKeeper struct{ flatProfiles }

func (p lifeKeeper) Upsert(_ context.Context, id int, v profile) error {
	var m driver.Meta
	if e := p.records[profileKey(id)]; e != nil {
		m = e.Meta
	}
	p.plant(profileKey(id), v, m)
	return nil
}

// What is deleted by another process, or by the store itself, leaves no life to the row that a save finds absent.
func TestSaveOfWhatIsGone(t *testing.T) {
	for _, inserts := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] { return inserter{p} })
			r.touches(refused)
			wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
			must(t, r.under.Delete(t.Context(), profileKey(1)))
			time.Sleep(10 * time.Millisecond)
			if inserts {
				r.touches(func(context.Context) error { return nil })
				reborn := instant(time.Now())
				must(t, r.Insert(t.Context(), 1, profile{Name: "bob"}))
				r.bornSince(t, reborn, "the insert")
			} else {
				r.saveAgain(t, "another process's deletion")
			}
			r.close(t)
		})
	}
}

type inserter struct{ flatProfiles }

func (p inserter) Insert(ctx context.Context, id int, v profile) error { return p.Upsert(ctx, id, v) }

// A save that finds its row gone waits for a touch of it like the deletion does.
func TestSaveWhileADeletionWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		r.touches(func(ctx context.Context) error { return sleep(ctx, 3*time.Second) })
		r.saveBriefly(t)
		deleted := make(chan error)
		go func() { deleted <- r.Delete(context.Background(), 1) }()
		time.Sleep(100 * time.Millisecond)
		r.saveAgain(t, "a deletion that waits")
		must(t, <-deleted)
		r.close(t)
	})
}

// A touch that landed on a deleted row, and whose answer is late, serves no access to the next row.
func TestLandedTouchOfTheRowBefore(t *testing.T) {
	for how, slack := range map[string]time.Duration{"exact": 0, "slack": 5 * time.Minute} {
		for _, tx := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				under := newFlat[int]()
				d := over[int](under)
				slow := lateTouch(d)
				p := session
				p.Slack = slack
				s := open(t, d, p, nil)
				today := driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(5 * time.Minute))}}
				under.plant("k", 1, today)
				slow.Store(true)
				read(t, s, "k")
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if tx {
					ctx = driver.WithUndo(t.Context())
				}
				must(t, s.Delete(ctx, "k"))
				under.plant("k", 2, today)
				read(t, s, "k")
				time.Sleep(6 * time.Minute)
				if _, err := s.Get(t.Context(), "k"); err != nil {
					t.Errorf("%s, in a transaction %t: %v six minutes after a read; %+v", how, tx, err, s.Stats())
				}
			})
		}
	}
}

// What a value tells of its creation stays where the row may live on, and with a row saved since.
func TestDeletionBesideAToldCreation(t *testing.T) {
	for _, how := range []string{"refused", "rolled back", "late"} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			born := time.Now().Add(-11 * time.Hour)
			var repo slidingttl.Repository[int, profile] = flatProfiles{r.under}
			if how == "refused" {
				repo = keeper{flatProfiles{r.under}}
			}
			w, err := slidingttl.Wrap(repo, r.s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: func(profile) time.Time { return born }})
			must(t, err)
			must(t, flatProfiles{r.under}.Upsert(t.Context(), 1, profile{Name: "ann"})) // by another program
			r.touches(refused)
			_, err = w.Get(t.Context(), 1)
			must(t, err)
			time.Sleep(100 * time.Millisecond)
			switch how {
			case "refused":
				wantErr(t, w.Delete(t.Context(), 1), errKept)
			case "rolled back":
				must(t, r.s.Delete(driver.WithUndo(t.Context()), profileKey(1)))
				must(t, flatProfiles{r.under}.Upsert(t.Context(), 1, profile{Name: "ann"}))
			default: // the next row is saved between its effect and its answer
				r.d.after = func(op, _ string) {
					if op == "delete" {
						time.Sleep(200 * time.Millisecond)
					}
				}
				deleted := make(chan error)
				go func() { deleted <- r.s.Delete(context.Background(), profileKey(1)) }()
				time.Sleep(100 * time.Millisecond)
				wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}), errDown)
				must(t, <-deleted)
			}
			r.touches(func(context.Context) error { return nil })
			time.Sleep(time.Minute)
			if c := r.created(); c != instant(born) {
				t.Errorf("%s: created_at is %v after what the value tells", how, c.Sub(instant(born)))
			}
			r.close(t)
		})
	}
}

var errKept = errors.New("not allowed")

type keeper struct{ flatProfiles }

func (keeper) Delete(context.Context, int) error { return errKept }

// A value that was read before its row's deletion tells nothing of the next row, and what it told when the
// deletion is rolled back.
func TestLateValueTellsNothing(t *testing.T) {
	for _, how := range []string{"get", "get multi", "touch hangs", "rolled back"} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			born := time.Now().Add(-11 * time.Hour)
			var repo slidingttl.Repository[int, profile] = lateReads{flatProfiles{r.under}}
			if how == "touch hangs" {
				repo = flatProfiles{r.under}
				r.touches(hangs)
			}
			w, err := slidingttl.Wrap(repo, r.s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: func(p profile) (tells time.Time) {
				if p.Name == "ann" {
					tells = born
				}
				return tells
			}})
			must(t, err)
			must(t, flatProfiles{r.under}.Upsert(t.Context(), 1, profile{Name: "ann"})) // by another program
			got := make(chan error)
			go func() {
				var err error
				if how == "get multi" {
					_, err = w.GetMulti(context.Background(), []int{1})
				} else {
					_, err = w.Get(context.Background(), 1)
				}
				got <- err
			}()
			time.Sleep(200 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			name := "bob"
			if how == "rolled back" {
				ctx, name = driver.WithUndo(t.Context()), "ann"
			}
			reborn := instant(time.Now()) // or later
			must(t, w.Delete(ctx, 1))
			must(t, flatProfiles{r.under}.Upsert(t.Context(), 1, profile{Name: name})) // by another program
			must(t, <-got)
			r.touches(func(context.Context) error { return nil })
			time.Sleep(time.Minute)
			switch c := r.created(); how {
			case "rolled back":
				if c != instant(born) {
					t.Errorf("%s: created_at is %v after what the value tells", how, c.Sub(instant(born)))
				}
			case "touch hangs": // and then fails: nobody has read the next row
				if c != 0 {
					t.Errorf("%s: the next row is adopted", how)
				}
			default:
				if c < reborn {
					t.Errorf("%s: created_at is %v before the save", how, reborn.Sub(c))
				}
			}
			r.close(t)
		})
	}
}

type lateReads struct{ flatProfiles }

func (s lateReads) Get(ctx context.Context, id int) (profile, error) {
	v, err := s.flatProfiles.Get(ctx, id)
	time.Sleep(time.Second)
	return v, err
}

// Records that died while their touches waited are counted, also once their reader deletes them.
func TestDeletionOfWhatDiedWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return hangs(ctx)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 1, Touches: slidingttl.Background, Workers: 1})
		const n = 300
		for i := range n {
			under.plant(fmt.Sprint(i), 1, driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(20 * time.Second))}})
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(21 * time.Second)
		for i := range n {
			must(t, s.Delete(t.Context(), fmt.Sprint(i)))
		}
		if st := s.Stats(); st.Shed+st.TouchFails < n-5 || st.Broken < (n-5)*29*time.Minute {
			t.Errorf("%+v", st)
		}
	})
}

// lateProfiles is a repository whose saves take two seconds, and one by the name of late before it writes.
type lateProfiles struct{ flatProfiles }

func (s lateProfiles) Upsert(ctx context.Context, id int, v profile) error {
	if v.Name == "late" {
		time.Sleep(2 * time.Second)
		return s.flatProfiles.Upsert(ctx, id, v)
	}
	err := s.flatProfiles.Upsert(ctx, id, v)
	time.Sleep(2 * time.Second)
	return err
}

// A deletion between a save's read and its write ends the life that was read.
func TestDeletionBetweenReadAndWrite(t *testing.T) {
	for _, end := range []func(*row) error{
		func(r *row) error { return r.Delete(context.Background(), 1) },
		func(r *row) error { return r.s.Retire(context.Background(), profileKey(1)) },
	} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] { return lateProfiles{p} })
			saved := make(chan error)
			go func() { saved <- r.Upsert(context.Background(), 1, profile{Name: "late"}) }()
			time.Sleep(100 * time.Millisecond)
			ended := instant(time.Now())
			must(t, errors.Join(end(r), <-saved))
			r.bornSince(t, ended, "the end")
			r.close(t)
		})
	}
	bubble(t, func(t *testing.T) { // but what the value tells stays
		r := newRow(t, nil)
		born := time.Now().Add(-time.Hour)
		w, err := slidingttl.Wrap(lateProfiles{flatProfiles{r.under}}, r.s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: func(profile) time.Time { return born }})
		must(t, err)
		saved := make(chan error)
		go func() { saved <- w.Upsert(context.Background(), 1, profile{Name: "late"}) }()
		time.Sleep(100 * time.Millisecond)
		must(t, errors.Join(w.Delete(t.Context(), 1), <-saved))
		if c := r.created(); c != instant(born) {
			t.Errorf("created_at is %v after what the value tells", c.Sub(instant(born)))
		}
		r.close(t)
	})
}

// A touch that comes only once its record is deleted, and saved anew, gives it no earlier life.
func TestTouchThatComesAfterADeletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] { return lateProfiles{p} })
		var gets atomic.Int32
		r.d.after = func(op, _ string) {
			if op == "get" && gets.Add(1) == 2 { // after the first save's write
				time.Sleep(time.Second)
			}
		}
		first, second := make(chan error), make(chan error)
		go func() { first <- r.Upsert(context.Background(), 1, profile{Name: "ann"}) }()
		time.Sleep(2*time.Second + 100*time.Millisecond)
		must(t, r.Delete(t.Context(), 1))
		reborn := instant(time.Now())
		go func() { second <- r.Upsert(context.Background(), 1, profile{Name: "bob"}) }()
		must(t, errors.Join(<-first, <-second))
		r.bornSince(t, reborn, "the save")
		r.close(t)
	})
}

// Whatever a deletion in a transaction, or one beside a deaf driver, answers: a touch that runs leaves no
// life to the next record, also not by way of saves that find it.
func TestDeletionBesideARunningTouch(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		for _, answer := range []error{nil, errNoProfile, errors.New("connection reset by peer")} {
			bubble(t, func(t *testing.T) {
				r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] {
					return deleter{p, func() error { return answer }}
				})
				ctx := driver.WithUndo(t.Context())
				r.touches(hangs)
				if deaf {
					ctx = t.Context()
					r.touches(func(context.Context) error { time.Sleep(6 * time.Second); return errDown })
				}
				r.saveBriefly(t)
				wantErr(t, r.Delete(ctx, 1), answer)
				reborn := instant(time.Now())
				r.saveBriefly(t)
				r.touches(func(context.Context) error { return nil })
				r.saveBriefly(t)
				time.Sleep(time.Minute)
				if c := r.created(); c < reborn {
					t.Errorf("deaf %t, answer %v: created_at is %v before the save", deaf, answer, reborn.Sub(c))
				}
				r.close(t)
			})
		}
	}
}

// Touches that fail after their rows were deleted are failures of the store.
func TestTouchesOfDeletedRowsOpenTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[int]()
		d := over[int](under)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return hangs(ctx)
			}
			return nil
		}
		s, err := slidingttl.New[int](d, session, nil)
		must(t, err)
		for i := range 200 {
			key := fmt.Sprint(i)
			under.plant(key, 1, driver.Meta{})
			read(t, s, key)
			must(t, s.Delete(driver.WithUndo(t.Context()), key))
			time.Sleep(100 * time.Millisecond)
		}
		if !s.Stats().BreakerOpen {
			t.Error("the breaker is closed, and no touch has landed")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
}

// hashed is a repository over a store where the version of what others write is a hash of the content.
type hashed struct{ flatProfiles }

func (h hashed) Upsert(_ context.Context, id int, v profile) error {
	h.plant(profileKey(id), v, driver.Meta{Version: 7})
	return nil
}

// A version does not tell the next record from the deleted one if it has the same content.
func TestDeletionBeforeTheSameContent(t *testing.T) {
	for how, touch := range map[string]func(context.Context) error{
		"rests": refused,
		"runs":  func(ctx context.Context) error { return sleep(ctx, 2*time.Second) },
	} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, func(p flatProfiles) slidingttl.Repository[int, profile] { return hashed{p} })
			r.touches(touch)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_ = r.Upsert(ctx, 1, profile{Name: "ann"})
			must(t, r.Delete(t.Context(), 1))
			r.saveAgain(t, "a deletion while the touch "+how)
			r.close(t)
		})
	}
}

// A save that waits for its touch beside a deletion that is refused gets it, whoever refuses.
func TestSaveBesideARefusedDeletion(t *testing.T) {
	for _, own := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRow(t, nil)
			if own {
				var err error
				r.Wrapped, err = slidingttl.Wrap[int, profile](refusing{flatProfiles{r.under}}, r.s, profileKey, nil)
				must(t, err)
			}
			r.touches(func(ctx context.Context) error { return sleep(ctx, 3*time.Second) })
			_, err := r.Get(t.Context(), 1) // its touch goes on
			must(t, err)
			done := make(chan error)
			go func() { done <- r.Upsert(context.Background(), 1, profile{Name: "bob"}) }()
			time.Sleep(time.Second)
			r.touches(func(context.Context) error { return nil })
			r.refuseDelete.Store(true)
			wantErr(t, r.Delete(t.Context(), 1), errDown)
			must(t, <-done)
			if r.created() == 0 {
				t.Errorf("own Delete %t: the row has no life", own)
			}
			r.close(t)
		})
	}
}

// refusing is a repository whose Delete is refused.
type refusing struct{ flatProfiles }

func (refusing) Delete(context.Context, int) error { return errDown }

// A touch that rests rests on after a deletion that is refused.
func TestRefusedDeletionsEndNoRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRow(t, nil)
		r.touches(refused)
		wantErr(t, r.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
		sent := r.d.count("touch")
		r.refuseDelete.Store(true)
		for range 10 {
			wantErr(t, r.Delete(t.Context(), 1), errDown)
			time.Sleep(50 * time.Millisecond)
		}
		if n := r.d.count("touch"); n != sent {
			t.Errorf("%d touches were sent within its rest", n-sent)
		}
		r.touches(func(context.Context) error { return nil })
		r.close(t)
	})
}
