package archive_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// kinds orders names by the first letters of their bases, in the order of letters.
func kinds(letters ...string) func(a, b string) int {
	rank := func(name string) int {
		return slices.IndexFunc(letters, func(l string) bool { return strings.Contains(name, "/"+l) })
	}
	return func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }
}

// A day is compacted twice while a listing of it is made, in any order, with the changes in
// two bursts at any two of its steps: the files listed have all lives that were there when it
// began, and none twice.
func TestListedBesideCompaction(t *testing.T) {
	type change struct {
		name    string
		content []byte
	}
	var changes []change
	b := newFake()
	b.did = func(name string) { // by several goroutines at once
		b.mu.Lock()
		defer b.mu.Unlock()
		changes = append(changes, change{name, b.files[name]})
	}
	w := writer(t, b)
	write(t, w, batch(0, 1, 0), batch(1, 2, 0))
	compact(t, b)
	write(t, w, batch(2, 3, 0))
	compact(t, b)
	has := map[string]string{} // by file, the lives in it
	for n, i := 0, 0; i < len(changes); i++ {
		c := changes[i]
		under, work := strings.CutPrefix(c.name, "day=2026-11-22/_merged-")
		if c.content == nil || !work && !strings.Contains(c.name, "/batch-") {
			continue
		}
		has[c.name] = []string{"a", "b", "ab", "c", "abc"}[n]
		if work {
			has["day=2026-11-22/merged-"+under+".parquet"] = has[c.name]
		}
		n++
	}
	if len(has) != 7 || len(changes) != 15 {
		t.Fatalf("%d files, %d changes", len(has), len(changes))
	}
	listed := func(b *fakeBucket) string {
		days, err := archive.NewReader(b).Names(t.Context(), archive.Span{})
		if err != nil {
			return err.Error()
		}
		var all []byte
		for _, names := range days {
			for _, name := range names {
				all = append(all, has[name]...)
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
			want := listed(before)
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
						got := listed(b)
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
