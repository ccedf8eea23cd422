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
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// kinds orders names by the first letters of their bases, in the order in which letters has them.
func kinds(letters ...string) func(a, b string) int {
	rank := func(name string) int {
		return slices.IndexFunc(letters, func(l string) bool { return strings.Contains(name, "/"+l) })
	}
	return func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }
}

// A day is compacted twice while a listing of it is made, in any order, with the changes in
// two bursts at any two of its steps: the files told have all lives that were there when it
// began, and none twice.
func TestListedBesideCompaction(t *testing.T) {
	type change struct {
		name    string
		content []byte
	}
	var changes []change
	b := newFake()
	b.did = func(name string) { changes = append(changes, change{name, b.files[name]}) }
	w := writer(t, b)
	write(t, w, batch(0, 1, 0), batch(1, 2, 0))
	compact(t, b)
	write(t, w, batch(2, 3, 0))
	compact(t, b)
	has := map[string]string{} // by file, the lives in it
	for n, i := 0, 0; i < len(changes); i++ {
		c := changes[i]
		under, work := strings.CutPrefix(c.name, "day=2026-11-22/_merge-")
		if c.content == nil || !work && !strings.Contains(c.name, "/batch-") {
			continue
		}
		has[c.name] = []string{"a", "b", "ab", "c", "abc"}[n]
		if work {
			has["day=2026-11-22/merge-"+under+".parquet"] = has[c.name]
		}
		n++
	}
	if len(has) != 7 || len(changes) != 16 {
		t.Fatalf("%d files, %d changes", len(has), len(changes))
	}
	told := func(b *fakeBucket) string {
		days, err := archive.NewReader(b).Manifests(t.Context(), archive.Span{})
		if err != nil {
			return err.Error()
		}
		var all []byte
		for _, m := range days {
			for _, f := range m.Files {
				all = append(all, has[f.Name]...)
			}
		}
		slices.Sort(all)
		return string(all)
	}
	for _, order := range []func(a, b string) int{
		kinds("b", "_ma", "me", "_me"), kinds("_ma", "_me", "b", "me"), kinds("me", "_me", "b", "_ma"),
	} {
		for begun := range changes {
			apply := func(b *fakeBucket, from, to int) {
				for _, c := range changes[from:to] {
					_ = b.set(c.name, c.content, false)
				}
			}
			before := newFake()
			apply(before, 0, begun)
			want := told(before)
			for first := 0; ; first++ {
				reached := false
				for half := begun + 1; half <= len(changes); half++ {
					for second := first; ; second++ {
						b, step, done := before.clone(), 0, begun
						b.order = order
						b.step = func() {
							if step == first {
								apply(b, begun, half)
								done, reached = half, true
							}
							if step == second {
								apply(b, half, len(changes))
								done = len(changes)
							}
							step++
						}
						got := told(b)
						if !strings.HasPrefix(got, want) || !strings.HasPrefix("abc", got) {
							t.Fatalf("after %d changes, up to %d at step %d and the rest at %d, it tells %q; want %q", begun, half, first, second, got, want)
						}
						if done < len(changes) || half == len(changes) {
							break
						}
					}
				}
				if !reached {
					break
				}
			}
		}
	}
}

func compact(t *testing.T, b archive.Bucket) {
	t.Helper()
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
}

// pauseAtReads has the two parties of TestTwoAtOnce pause before they list and read, too.
var pauseAtReads = false

// paused is a bucket for one of two parties. At one of its calls it lets the other go first.
type paused struct {
	archive.Bucket
	left  int // calls
	pause func()
}

func (p *paused) at() {
	if p.left--; p.left == -1 {
		p.pause()
	}
}

func (p *paused) Create(ctx context.Context, write func(io.Writer) (string, error)) error {
	if pauseAtReads {
		p.at()
	}
	return p.Bucket.Create(ctx, func(w io.Writer) (string, error) {
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
		s.err = do(&paused{b, calls, func() { s.stopped <- true; <-s.again }})
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

// Two work at one day: one until any of its changes, the other until any of its changes, then
// the first to its end and the second to its end. No life is lost or there twice, and what was
// forgotten is nowhere.
func TestTwoAtOnce(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 4, 0))
	compact(t, base)
	write(t, writer(t, base), batch(4, 5, 0))
	key := dead(2, 0).Key
	programs := map[string]func(archive.Bucket) error{
		"compact": func(b archive.Bucket) error { _, err := archive.Compact(t.Context(), b, nil); return err },
		"forget": func(b archive.Bucket) error {
			_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil)
			return err
		},
		"retain": func(b archive.Bucket) error {
			_, err := archive.Retain(t.Context(), b, 1, &archive.RetainOptions{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
			return err
		},
		"write": func(b archive.Bucket) error { return writer(t, b).Write(t.Context(), batch(5, 6, 0)) },
		"again": func(b archive.Bucket) error { return writer(t, b).Write(t.Context(), batch(4, 5, 0)) },
	}
	for one, first := range programs {
		for other, second := range programs {
			runs := 0
			for i, more := 0, true; more; i++ {
				for j, moreOfOther := 0, true; moreOfOther; j++ {
					b := base.clone()
					s := begin(b, i, first)
					more = <-s.stopped
					o := begin(b, j, second)
					moreOfOther = <-o.stopped
					if err := errors.Join(s.finish(more), o.finish(moreOfOther)); err != nil {
						t.Fatalf("%s and %s, at %d and %d: %v", one, other, i, j, err)
					}
					runs++
					judge(t, b, key, fmt.Sprintf("%s and %s, at %d and %d", one, other, i, j), one, other)
				}
			}
			t.Logf("%s and %s: %d runs", one, other, runs)
		}
	}
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
		if k == key && slices.Contains(programs, "forget") {
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
