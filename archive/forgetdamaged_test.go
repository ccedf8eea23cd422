package archive_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/metrics"
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
		Columns: []archive.Column{archive.NewColumn("n", func(r *archive.Record) (int64, bool, error) {
			return r.ExpiredAt.Time().UnixMilli() % 20, true, nil
		})},
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

// A flipped bit of a file costs no reader more memory than its sizes allow, and hides no record from those that
// read all.
func TestFlipped(t *testing.T) {
	b := newFake()
	w, err := archive.NewWriter(b, &archive.WriterOptions{
		Now:     func() time.Time { return noon.AddDate(0, 0, 7) },
		Columns: []archive.Column{archive.NewColumn("n", func(r *archive.Record) (int64, bool, error) { return r.ExpiredAt.Time().UnixMilli() % 20, true, nil })},
	})
	ok(t, err)
	write(t, w, batch(0, 20, 0))
	name := files(t, b)[0]
	whole := b.files[name]
	write(t, w, batch(20, 25, 0)) // Compact needs two files
	ctx, key := t.Context(), dead(7, 0).Key
	forget := func(what archive.Selection) func(archive.Bucket) (int, error) {
		return func(b archive.Bucket) (int, error) {
			r, err := archive.Forget(ctx, b, what, &archive.ForgetOptions{DryRun: true})
			if err != nil {
				return 0, err
			}
			return int(r.Records), nil
		}
	}
	readers := []struct {
		name string
		want int // records, if there is no error; -1: any
		call func(archive.Bucket) (int, error)
	}{
		{"Find", -1, func(b archive.Bucket) (int, error) { // believes the statistics
			found, err := archive.NewReader(b).Find(ctx, key, archive.Span{})
			return len(found), err
		}},
		{"All", 25, func(b archive.Bucket) (n int, _ error) {
			var errs []error
			for _, err := range archive.NewReader(b).All(ctx, archive.Span{}) {
				n++
				errs = append(errs, err)
			}
			return n, errors.Join(errs...)
		}},
		{"Forget of a key", 1, forget(archive.Selection{Keys: []string{key}})},
		{"Forget by a column", 1, forget(archive.Selection{Column: "n", Value: "7"})},
		{"Compact", -1, func(b archive.Bucket) (int, error) { _, err := archive.Compact(ctx, b, nil); return 0, err }},
		{"Verify", -1, func(b archive.Bucket) (int, error) { _, err := archive.NewReader(b).Verify(ctx, nil); return 0, err }},
	}
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	footer := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	for at := range whole {
		every := 16
		if at >= footer {
			every = 2
		}
		for bit := range 8 {
			harmed := slices.Clone(whole)
			harmed[at] ^= 1 << bit
			isCodec := at >= footer && harmed[at] == 0x0e
			for i, r := range readers {
				if !isCodec && ((at+bit)%every != 0 || (at/8+bit+i)%len(readers) != 0) {
					continue
				}
				of := b.clone()
				of.files[name] = harmed
				metrics.Read(allocated)
				before := allocated[0].Value.Uint64()
				n, err := r.call(of)
				metrics.Read(allocated)
				if used := allocated[0].Value.Uint64() - before; used > 16<<20 && at >= footer || used > 3<<30 { // a header in a page has sizes of 31 bits
					t.Errorf("%s, byte %d of %d, bit %d: %d MB; %v", r.name, at, len(whole), bit, used>>20, err)
				}
				switch {
				case err == nil && r.want >= 0 && n != r.want:
					t.Errorf("%s, byte %d of %d, bit %d: %d records, want %d, and no error", r.name, at, len(whole), bit, n, r.want)
				case err != nil && !errors.Is(err, archive.ErrCorrupt) && !strings.Contains(err.Error(), "must be a column of the archive"):
					t.Errorf("%s, byte %d of %d, bit %d: %v", r.name, at, len(whole), bit, err)
				}
			}
		}
	}
}

// shown is b without its delete markers. A batch behind one is another than what was merged of its records.
func shown(b *fakeBucket) *fakeBucket {
	s := b.clone()
	for name, content := range b.files {
		if day, file, ok := strings.Cut(name, "/batch-"); ok && strings.HasSuffix(file, "?1") {
			s.files[day+"/batch-"+"ffff"+strings.TrimSuffix(file, "?1")[4:]] = content
		}
	}
	return s
}

// What Forget takes does not depend on how the records lie in files: each life that one of the ways
// selects in any file, also behind a delete marker, goes from all of them, and no other life does.
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
	columns := []archive.Column{archive.NewColumn("person", func(r *archive.Record) (string, bool, error) { return string(r.Value), true, nil })}
	for range 20 {
		b := newFake()
		type life struct {
			key       string
			i, person int
		}
		var lives []life
		owned := map[life]bool{} // a file has the person of it
		cut := func(some []life) (c lot) {
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
				o.Columns = columns
			}
			put := func() {
				for _, l := range some {
					owned[l] = owned[l] || o.Columns != nil
				}
				w, err := archive.NewWriter(b, o)
				ok(t, err)
				write(t, w, cut(some))
			}
			was := b.clone().files
			if put(); rng.IntN(2) == 0 {
				for name := range b.clone().files {
					if was[name] == nil && strings.Contains(name, "/batch-") {
						b.hide(name)
					}
				}
				if o.Columns = nil; rng.IntN(2) == 0 {
					o.Columns = columns
				}
				put()
				maps.DeleteFunc(b.files, func(name string, _ []byte) bool { // what is written again is no longer hidden
					return b.files[strings.TrimSuffix(name, "?1")] != nil && strings.HasSuffix(name, "?1")
				})
			}
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
			known := false
			for _, a := range all(t, shown(b)) { // a file behind a delete marker goes whole, with its values for others
				has := a.Columns["person"] != nil
				known = known || has
				for l := range owned {
					if l.key == a.Key && dead(l.i, l.i%2).ExpiredAt == a.ExpiredAt {
						owned[l] = has
					}
				}
			}
			if rng.IntN(3) == 0 { // a call that is killed hides no life from the next one
				_, _ = archive.Forget(t.Context(), b, what, &archive.ForgetOptions{Save: func(*archive.Report) error { return errors.New("killed") }})
			}
			r, err := archive.Forget(t.Context(), b, what, nil)
			if err != nil && (known || !strings.Contains(err.Error(), "must be a column of the archive")) {
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
			for _, a := range all(t, shown(b)) {
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

// TestForgetBesideDamaged: a damaged file, whose keys can be read, stays, and all others of its day are rewritten. Where a
// run that was killed left a file too, all stay. What stays for that is in the error, and no source has archived it.
func TestForgetBesideDamaged(t *testing.T) {
	for _, killed := range []bool{false, true} {
		b := newFake()
		write(t, writer(t, b), batch(0, 3, 0), batch(3, 6, 0))
		if killed {
			if _, err := archive.Compact(t.Context(), crash(b, 0, true), nil); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
		}
		damaged := pick(t, b, "/batch-")[0]
		whole := b.files[damaged]
		for at := 0; ; at++ { // a byte of a value
			b.files[damaged] = slices.Clone(whole)
			b.files[damaged][at] ^= 1
			if _, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "key-"}, &archive.ForgetOptions{DryRun: true}); err == nil {
				break
			}
		}
		r, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "key-"}, nil)
		if !errors.Is(err, archive.ErrCorrupt) || errors.Is(err, archive.ErrLeft) || left(r) != 0 || killed != (r.Records == 0) || killed != (r.Files == 0) {
			t.Errorf("killed %v: %v, %v", killed, r, err)
		}
		if got := pick(t, b, "/batch-"); !killed && !slices.Equal(got, []string{damaged}) {
			t.Errorf("%q stay; %q is damaged", got, damaged)
		}
	}
}
