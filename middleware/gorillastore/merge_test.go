package gorillastore_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// race has two requests read the session of values, and save it one after the other.
func (a *site) race(values map[any]any, first, second func(v map[any]any)) (b *browser, after map[any]any, err error) {
	a.t.Helper()
	b = a.browser()
	if err := b.do(func(s *gorilla.Session) { s.Values = values }); err != nil {
		a.t.Fatal(err)
	}
	q1, q2 := b.request(), b.request()
	s1, s2 := q1.get(), q2.get()
	first(s1.Values)
	second(s2.Values)
	if err := s1.Save(q1.r, q1.w); err != nil {
		a.t.Fatal(err)
	}
	err = s2.Save(q2.r, q2.w)
	if saved := b.request().get().Values; err == nil && !reflect.DeepEqual(s2.Values, values) && !reflect.DeepEqual(saved, s2.Values) {
		a.t.Errorf("the request has %v, and the store %v", s2.Values, saved)
	}
	return b, b.request().get().Values, err
}

func TestMerge(t *testing.T) {
	type v = map[any]any
	list := func(l ...any) []any { return l }
	tests := []struct {
		name               string
		was, first, second v // nil for a value removes it
		want               v // nil: a conflict over "k"
	}{
		{"different keys", v{"a": 1, "b": 1}, v{"a": 2}, v{"b": 2}, v{"a": 2, "b": 2}},
		{"new keys", v{"z": 1}, v{"a": 2}, v{"b": 2}, v{"z": 1, "a": 2, "b": 2}},
		{"keys of other types", v{1: 1, true: 1}, v{1: 2}, v{true: 2}, v{1: 2, true: 2}},
		{"removed and changed elsewhere", v{"a": 1, "b": 1}, v{"a": nil}, v{"b": 2}, v{"b": 2}},
		{"changed elsewhere and removed", v{"a": 1, "b": 1}, v{"a": 2}, v{"b": nil}, v{"a": 2}},
		{"both removed", v{"a": 1, "k": 1}, v{"k": nil}, v{"k": nil}, v{"a": 1}},
		{"only read", v{"a": 1}, v{"a": 2}, v{}, v{"a": 2}},
		{"one value", v{"k": 1}, v{"k": 2}, v{"k": 3}, nil},
		{"a counter", v{"k": 1}, v{"k": 2}, v{"k": 2}, nil},
		{"changed and removed", v{"k": 1}, v{"k": 2}, v{"k": nil}, nil},
		{"removed and changed", v{"k": 1}, v{"k": nil}, v{"k": 2}, nil},
		{"both new", v{"a": 1}, v{"k": 1}, v{"k": 2}, nil},
		{"a list of strings", v{"k": []string{"a"}}, v{"k": []string{"a", "b"}}, v{"k": []string{"a", "c"}}, nil},
		{"a list that becomes none", v{"k": list("a")}, v{"k": list("a", "b")}, v{"k": "c"}, nil},
		{"flashes added", v{"k": list("a")}, v{"k": list("a", "b")}, v{"k": list("a", "c")}, v{"k": list("a", "b", "c")}},
		{"the same flash added", v{"k": list("a")}, v{"k": list("a", "b")}, v{"k": list("a", "b")}, v{"k": list("a", "b", "b")}},
		{"first flashes", v{"a": 1}, v{"k": list("b")}, v{"k": list("c")}, v{"a": 1, "k": list("b", "c")}},
		{"flashes taken and added", v{"k": list("a")}, v{"k": nil}, v{"k": list("a", "c")}, v{"k": list("c")}},
		{"flashes added and taken", v{"k": list("a")}, v{"k": list("a", "b")}, v{"k": nil}, v{"k": list("b")}},
		{"flashes taken by both", v{"k": list("a"), "a": 1}, v{"k": nil}, v{"k": nil}, v{"a": 1}},
		{"flashes taken by both, and added", v{"k": list("a", "a")}, v{"k": list("b")}, v{"k": list("c")}, v{"k": list("b", "c")}},
		{"flashes taken in part", v{"k": list("a", "b")}, v{"k": list("a")}, v{"k": list("b")}, v{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, a *site) {
				set := func(to v) func(v) {
					return func(values v) {
						for key, value := range to {
							if values[key] = value; value == nil {
								delete(values, key)
							}
						}
					}
				}
				_, got, err := a.race(tt.was, set(tt.first), set(tt.second))
				if tt.want == nil {
					var conflict *gorillastore.ConflictError
					if !errors.As(err, &conflict) || conflict.Key != "k" || !errors.Is(err, slidingttl.ErrConflict) {
						t.Errorf("error %v", err)
					}
					tt.want = tt.was
					set(tt.first)(tt.want)
				} else if err != nil {
					t.Errorf("error %v", err)
				}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestNoMap: a program may empty a session by a nil map.
func TestNoMap(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("k", 1)
		q := b.request()
		s := q.get()
		b.like().set("other", 1)
		s.Values = nil
		if err := s.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[any]any{"k": nil, "other": 1} {
			if b.has(key, want, "emptied"); s.Values[key] != want {
				t.Errorf("after Save %v is %v", key, s.Values[key])
			}
		}
	})
}

// add is a Merge for a program that counts.
func add(_, was, stored, saved any) (any, error) {
	n := func(v any) int { i, _ := v.(int); return i }
	return n(stored) + n(saved) - n(was), nil
}

// TestOptionsMerge: with it no update of many at once is lost.
func TestOptionsMerge(t *testing.T) {
	run(t, &gorillastore.Options{Merge: add}, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("other", true)
		const n = 32
		var wg sync.WaitGroup
		for i := range n {
			q := b.request()
			s := q.get()
			wg.Go(func() {
				count, _ := s.Values["count"].(int)
				s.Values["count"], s.Values[i] = count+1, i
				if err := s.Save(q.r, q.w); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.has("count", n, "counted by all at once")
		for i := range n {
			b.has(i, i, "of each")
		}
	})
	bad := errors.New("bad")
	refuse := func(_, _, _, _ any) (any, error) { return nil, bad }
	run(t, &gorillastore.Options{Merge: refuse}, func(t *testing.T, a *site) {
		_, got, err := a.race(map[any]any{"k": 1}, func(v map[any]any) { v["k"] = 2 }, func(v map[any]any) { v["k"] = 3 })
		if err != bad || got["k"] != 2 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestSaveAgainAfterConflict: a program that reads again, and counts again, loses nothing.
func TestSaveAgainAfterConflict(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("count", 0)
		const n = 8
		var wg sync.WaitGroup
		var starts sync.WaitGroup
		starts.Add(n)
		for range n {
			wg.Go(func() {
				for first := true; ; first = false {
					q := b.request()
					s := q.get()
					if first {
						starts.Done()
						starts.Wait()
					}
					s.Values["count"] = s.Values["count"].(int) + 1
					err := s.Save(q.r, q.w)
					if err == nil {
						return
					}
					if !errors.Is(err, slidingttl.ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.has("count", n, "counted by all at once")
	})
}

// FuzzMerge: whatever two requests do to a list, each element that neither has taken is there, in
// its order, and none that was not there or added.
func FuzzMerge(f *testing.F) {
	f.Add("abc", "abcd", "abce")
	f.Add("aab", "b", "")
	f.Add("", "x", "x")
	f.Fuzz(func(t *testing.T, was, first, second string) {
		if len(was)+len(first)+len(second) > 60 {
			return
		}
		count := func(s string) map[any]int {
			n := map[any]int{}
			for i := range len(s) {
				n[s[i]]++
			}
			return n
		}
		list := func(s string) any {
			var l []any
			for i := range len(s) {
				l = append(l, s[i])
			}
			if l == nil {
				return nil
			}
			return l
		}
		got, err := gorillastore.MergeLists("k", list(was), list(first), list(second))
		if err != nil {
			t.Fatal(err)
		}
		n := map[any]int{}
		merged, _ := got.([]any)
		for _, v := range merged {
			n[v]++
		}
		w, one, two := count(was), count(first), count(second)
		for c := range 256 {
			v := byte(c)
			want := max(0, one[v]-max(0, w[v]-two[v])) + max(0, two[v]-w[v])
			if n[v] != want {
				t.Errorf("%q, %q, %q: %d of %q, want %d: %v", was, first, second, n[v], v, want, fmt.Sprint(got))
			}
		}
	})
}
