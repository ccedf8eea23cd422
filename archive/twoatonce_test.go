//go:build !race

// The two programs of a schedule take turns, so that the race detector would see nothing and
// take nine times as long.

package archive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// Two work at one day: one until any of its changes, the other until any of its changes, then
// the first to its end and the second to its end. No life is lost or there twice, and what was
// forgotten is nowhere.
func TestTwoAtOnce(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 4, 0))
	former := base.clone()
	compact(t, base)
	write(t, writer(t, base), batch(4, 5, 0))
	key := dead(2, 0).Key
	forget := func(b archive.Bucket) error {
		_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil)
		return err
	}
	repair := func(b archive.Bucket) error {
		_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		return err
	}
	programs := map[string]func(archive.Bucket) error{
		"compact": func(b archive.Bucket) error { _, err := archive.Compact(t.Context(), b, nil); return err },
		"forget":  forget,
		"retain": func(b archive.Bucket) error {
			_, err := archive.Retain(t.Context(), b, 1, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
			return err
		},
		"write":  func(b archive.Bucket) error { return hand(t.Context(), writer(t, b), batch(5, 6, 0)) },
		"again":  func(b archive.Bucket) error { return hand(t.Context(), writer(t, b), batch(4, 5, 0)) },
		"repair": repair,
		"erase":  func(b archive.Bucket) error { return cmp.Or(repair(b), forget(b)) },
	}
	for one, first := range programs {
		for other, second := range programs {
			pair := one + " and " + other
			twoAtOnce(t, pair, base, first, second, func(when string, b *fakeBucket, errs ...error) {
				if err := errors.Join(errs...); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				judge(t, b, key, when, one, other)
			})
			if !pauseAtReads && (one == "retain" || other == "retain" || !slices.ContainsFunc([]string{one, other}, func(p string) bool { return p == "compact" || p == "repair" })) {
				continue // at night
			}
			for name, harmed := range harmedDays(t, base, former) {
				t.Run(name+": "+pair, func(t *testing.T) {
					twoAtOnce(t, pair, harmed, first, second, func(when string, b *fakeBucket, errs ...error) {
						judgeHarmed(t, b, key, name, when, []string{one, other}, errs)
					})
				})
			}
		}
	}
}

// TestForgetBesideForget: what one Forget has forgotten is in no file that another one leaves, where a file of the day is
// damaged too.
func TestForgetBesideForget(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 4, 0))
	former := base.clone()
	compact(t, base)
	write(t, writer(t, base), batch(4, 5, 0))
	keys := []string{dead(0, 0).Key, dead(2, 0).Key}
	var forget []func(archive.Bucket) error
	well := 0
	for _, key := range keys {
		forget = append(forget, func(b archive.Bucket) error {
			_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil)
			return err
		})
	}
	for _, b := range []*fakeBucket{base, harmedDays(t, base, former)["damaged batch"]} {
		twoAtOnce(t, "forget and forget", b, forget[0], forget[1], func(when string, b *fakeBucket, errs ...error) {
			for i, err := range errs {
				names := holders(t, b, keys[i])
				if err != nil && !errors.Is(err, archive.ErrCorrupt) || err == nil && len(names) > 0 {
					t.Fatalf("%s: %v; what was forgotten is in %q", when, err, names)
				}
			}
			if errors.Join(errs...) == nil {
				well++
			}
		})
	}
	if well < 30 {
		t.Errorf("%d runs had no error", well)
	}
}

// judgeHarmed says what is wrong with b, which was a harmed day, after the two programs and after a Repair. What a
// whole file had stays, whether Repair ran before or not.
func judgeHarmed(t *testing.T, b *fakeBucket, key, name, when string, programs []string, errs []error) {
	t.Helper()
	want := map[string]bool{}
	for i := range 5 {
		want[dead(i, 0).Key] = (name != "leftover" || i == 3) && (name != "damaged batch" || i < 4)
	}
	forgotten := false
	for i, err := range errs {
		switch {
		case err != nil && (!errors.Is(err, archive.ErrCorrupt) || name == "damaged leftover") && !(errors.Is(err, archive.ErrLeft) && slices.Contains(programs, "repair")):
			t.Fatalf("%s: %v", when, err)
		case err == nil && programs[i] == "write":
			want[dead(5, 0).Key] = true
		case err == nil && programs[i] == "again":
			want[dead(4, 0).Key] = true
		}
		if names := holders(t, b, key); err == nil && programs[i] == "forget" && len(names) > 0 && !slices.Contains(programs, "repair") && !slices.Contains(programs, "erase") {
			t.Fatalf("%s: what was forgotten is in %q", when, names)
		}
		forgotten = forgotten || programs[i] == "forget" || programs[i] == "erase"
		if err == nil && programs[i] == "erase" {
			if names := holders(t, b, key); len(names) > 0 {
				t.Fatalf("%s: what was forgotten after a Repair is in %q", when, names)
			}
		}
	}
	_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
	ok(t, err)
	if _, err := archive.NewReader(b).Verify(t.Context(), nil); err != nil {
		t.Fatalf("%s: after Repair: %v", when, err)
	}
	if forgotten { // Repair may have restored what was forgotten
		delete(want, key)
		if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil); err != nil {
			t.Fatalf("%s: forget after Repair: %v", when, err)
		}
	}
	compact(t, b)
	got := readable(t, b)
	for k, whole := range want {
		if whole && !got[k] && !slices.Contains(programs, "retain") {
			t.Fatalf("%s: %s was in a whole file, and is lost; files %q", when, k, slices.Sorted(maps.Keys(b.files)))
		}
	}
	if stats, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || stats.Rows != int64(len(got)) || forgotten && len(holders(t, b, key)) > 0 {
		t.Fatalf("%s: %d lives are in %+v, %v", when, len(got), stats, err)
	}
}

// twoAtOnce runs two programs on copies of base in all ways, and judges each.
func twoAtOnce(t *testing.T, pair string, base *fakeBucket, first, second func(archive.Bucket) error, judge func(when string, b *fakeBucket, errs ...error)) {
	runs := 0
	for i, more := 0, true; more; i++ {
		for j, moreOfOther := 0, true; moreOfOther; j++ {
			b := base.clone()
			s := begin(b, i, first)
			more = <-s.stopped
			o := begin(b, j, second)
			moreOfOther = <-o.stopped
			err := s.finish(more)
			judge(fmt.Sprintf("%s, at %d and %d", pair, i, j), b, err, o.finish(moreOfOther))
			runs++
		}
	}
	t.Logf("%s: %d runs", pair, runs)
}

// judge says what is wrong with b after the two programs, which began with the keys 0 to 4.
func judge(t *testing.T, b *fakeBucket, key, when string, programs ...string) {
	t.Helper()
	got := map[string]bool{}
	for _, a := range all(t, b) {
		got[a.Key] = true
	}
	for i := range 6 {
		k := dead(i, 0).Key
		want := i < 5 || slices.Contains(programs, "write")
		if k == key && (slices.Contains(programs, "forget") || slices.Contains(programs, "erase")) {
			want = false
			if names := holders(t, b, key); len(names) > 0 {
				t.Fatalf("%s: what was forgotten is in %q", when, names)
			}
		}
		if slices.Contains(programs, "retain") && (i < 5 || !got[k]) {
			want = false // what was written meanwhile may be there, or not
		}
		if got[k] != want {
			t.Fatalf("%s: %s is there: %t; want %t; files %q", when, k, got[k], want, slices.Sorted(maps.Keys(b.files)))
		}
	}
	if stats, err := archive.NewReader(b).Stats(t.Context(), archive.Span{}); err != nil || stats.Rows != int64(len(got)) {
		t.Fatalf("%s: %d lives are in %+v, %v", when, len(got), stats, err)
	}
}

// pauseAtReads has the two parties of TestTwoAtOnce pause before they list and read, too.
var pauseAtReads = false

// paused is a bucket for one of two parties. At one of its calls it lets the other go first.
type paused struct {
	archive.Bucket
	pause func()

	mu   sync.Mutex // held during a pause
	left int        // calls; guarded by mu
}

func (p *paused) at() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left == -1 {
		p.pause()
	}
}

func (p *paused) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	if pauseAtReads {
		p.at()
	}
	return p.Bucket.Create(ctx, dir, func(w io.Writer) (string, error) {
		name, err := write(w)
		p.at()
		return name, err
	})
}

func (p *paused) Remove(ctx context.Context, name string) error {
	p.at()
	return p.Bucket.Remove(ctx, name)
}

// Rename is that of S3: a copy that may land when the file has been removed.
func (p *paused) Rename(ctx context.Context, from, to string) error {
	b := p.Bucket.(*fakeBucket)
	b.mu.Lock()
	content, ok := b.files[from]
	b.mu.Unlock()
	if !ok {
		return fs.ErrNotExist
	}
	p.at()
	_ = b.set(to, content, false)
	return b.Remove(ctx, from)
}

func (p *paused) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	if pauseAtReads {
		p.at()
	}
	return p.Bucket.List(ctx, prefix)
}

// side is one of two parties.
type side struct {
	stopped chan bool // it waits (true), or is done
	again   chan struct{}
	err     error // when it is done
}

func begin(b archive.Bucket, calls int, do func(archive.Bucket) error) *side {
	s := &side{stopped: make(chan bool, 1), again: make(chan struct{})}
	go func() {
		s.err = do(&paused{Bucket: b, left: calls, pause: func() { s.stopped <- true; <-s.again }})
		s.stopped <- false
	}()
	return s
}

// finish lets s go to its end, if it waits.
func (s *side) finish(waits bool) error {
	if waits {
		close(s.again)
		<-s.stopped
	}
	return s.err
}
