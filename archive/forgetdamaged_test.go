package archive_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// A byte of a file that is lost, in its bloom filter, indexes or statistics too, never hides a record
// from Forget: it is forgotten, or the file is named.
func TestForgetDamaged(t *testing.T) {
	b := newFake()
	w, err := archive.NewWriter(b, &archive.WriterOptions{
		Now: func() time.Time { return noon.AddDate(0, 0, 7) },
		Columns: []archive.Column{{Name: "n", Type: archive.Integer, Of: func(r *archive.Record) (any, error) {
			return r.ExpiredAt.Time().UnixMilli() % 20, nil
		}}},
	})
	ok(t, err)
	write(t, w, batch(0, 20, 0))
	name := files(t, b)[0]
	whole := b.files[name]
	selections := []archive.Selection{{Keys: []string{dead(7, 0).Key}}, {Keys: []string{dead(7, 0).Key, "nobody"}}, {Prefix: dead(7, 0).Key}, {Column: "n", Value: "7"}}
	for i, what := range selections {
		forgotten, named := 0, 0
		for at := i; at < len(whole); at += min(i+1, 3) {
			harmed := slices.Clone(whole)
			harmed[at] = ^harmed[at]
			if at%2 == 0 {
				harmed[at] = 0
			}
			b.files[name] = harmed
			switch r, err := archive.Forget(t.Context(), b, what, &archive.ForgetOptions{DryRun: true}); {
			case err != nil:
				named++
			case r.Records == 1:
				forgotten++
			default:
				t.Errorf("%+v, byte %d of %d: %+v, and no error", what, at, len(whole), r)
			}
		}
		if forgotten == 0 || named == 0 {
			t.Errorf("%+v: %d forgotten, %d named", what, forgotten, named)
		}
	}
}

// What Forget takes does not depend on how the records lie in files: each life that one of the ways
// selects in any file goes from all of them, and no other life does.
func TestForgetAnyFiles(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	texts := []string{"a", "b", ":", "\U0010ffff", "\xff", "base64:", "\x00", strings.Repeat("a", 15), strings.Repeat("z", 70)}
	text := func() (s string) {
		for range 1 + rng.IntN(3) {
			s += texts[rng.IntN(len(texts))]
		}
		return s
	}
	for range 40 {
		b := newFake()
		type life struct {
			key       string
			i, person int
		}
		var lives []life
		owned := map[life]bool{} // a file has the person of it
		cut := func(some []life) (c archive.Batch) {
			c.Source = "links"
			for _, l := range some {
				r := dead(l.i, l.i%2)
				r.Key, r.Value = l.key, fmt.Append(nil, l.person)
				c.Records = append(c.Records, r)
			}
			return c
		}
		for i := range 60 {
			lives = append(lives, life{text(), i, rng.IntN(4)})
		}
		for _, from := range rng.Perm(21)[:4] { // no two days have the same records: they would be written once
			some := lives[2*from : 2*from+20]
			o := &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }}
			if rng.IntN(2) == 0 {
				o.Columns = []archive.Column{{Name: "person", Type: archive.Text, Of: func(r *archive.Record) (any, error) { return string(r.Value), nil }}}
			}
			for _, l := range some {
				owned[l] = owned[l] || o.Columns != nil
			}
			w, err := archive.NewWriter(b, o)
			ok(t, err)
			write(t, w, cut(some))
			if rng.IntN(4) == 0 {
				compact(t, b)
			}
		}
		for range 6 {
			var what archive.Selection
			is := func(l life) bool { return slices.Contains(what.Keys, l.key) }
			switch rng.IntN(3) {
			case 0:
				what.Keys = []string{text(), lives[rng.IntN(60)].key}
			case 1:
				what.Prefix = text()[:1]
				is = func(l life) bool { return strings.HasPrefix(l.key, what.Prefix) }
			default:
				what.Column, what.Value = "person", fmt.Sprint(rng.IntN(4))
				is = func(l life) bool { return owned[l] && fmt.Sprint(l.person) == what.Value }
			}
			r, err := archive.Forget(t.Context(), b, what, nil)
			if err != nil && !strings.Contains(err.Error(), "must be a column of the archive") {
				t.Fatalf("%q: %v", what, err)
			}
			want := map[string]bool{}
			for l := range owned {
				if is(l) {
					delete(owned, l)
				} else {
					want[fmt.Sprint(l.key, dead(l.i, l.i%2).ExpiredAt)] = true
				}
			}
			got := all(t, b)
			for _, a := range got {
				if !want[fmt.Sprint(a.Key, a.ExpiredAt)] {
					t.Errorf("%q: %q is left", what, a.Key)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%q: %d lives are left, want %d; %+v", what, len(got), len(want), r)
			}
		}
	}
}
