package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// The names that a manifest file has of working files, as an earlier version wrote them.
var named = regexp.MustCompile(`"(merged-[^"]*).parquet"`)

// One Repair makes all rows of whole files readable, whatever happened to the others, and names the
// files that are lost. A dry run changes nothing. Then Compact, Forget and Verify work.
func TestRepair(t *testing.T) {
	archive.Shorten(t, 8, 1) // several merged files a day
	base := newFake()
	w := writer(t, base)
	for day := range 2 {
		write(t, w, batch(0, 20, day), batch(20, 40, day))
	}
	compact(t, base)
	write(t, w, batch(40, 45, 0), batch(45, 50, 0))
	dice := rand.New(rand.NewPCG(3, 4))
	data := func(b *fakeBucket) (names []string) {
		for name := range b.files {
			if strings.HasSuffix(name, ".parquet") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	manifest := "day=2026-11-22/_manifest-000001.json"
	harms := map[string]func(b *fakeBucket) (lost []string){
		"a manifest that names nothing": func(b *fakeBucket) []string {
			b.files[manifest] = named.ReplaceAll(b.files[manifest], []byte(`"_$1"`))
			return nil
		},
		"half a manifest": func(b *fakeBucket) []string {
			b.files[manifest] = b.files[manifest][:20]
			return nil
		},
		"two versions": func(b *fakeBucket) []string {
			b.files[strings.Replace(manifest, "_", "", 1)] = []byte(`{"version":1,"files":[],"batches":[]}`)
			return nil
		},
	}
	for i := range 60 {
		harms[fmt.Sprint("files lost and cut ", i)] = func(b *fakeBucket) (lost []string) {
			known := map[string]bool{} // the days whose manifest file is whole
			for _, day := range []string{"day=2026-11-22", "day=2026-11-23"} {
				manifest := day + "/_manifest-000001.json"
				switch {
				case i < 20 || dice.IntN(3) == 0:
					known[day] = true
				case dice.IntN(2) == 0:
					delete(b.files, manifest)
				default:
					b.files[manifest] = b.files[manifest][:dice.IntN(len(b.files[manifest]))]
				}
			}
			for _, name := range data(b) {
				switch dice.IntN(4) {
				case 0:
					day, file, _ := strings.Cut(name, "/")
					if !strings.HasPrefix(file, "batch-") && known[day] { // others are not known to have been there
						lost = append(lost, name)
					}
					delete(b.files, name)
				case 1:
					lost = append(lost, name)
					b.files[name] = b.files[name][:dice.IntN(len(b.files[name]))]
				}
			}
			return lost
		}
	}
	for i := range 60 { // of a file that the client has encrypted, and that is cut, nothing can be read
		harm := harms[fmt.Sprint("files lost and cut ", i)]
		harms[fmt.Sprint("encrypted files lost and cut ", i)] = func(b *fakeBucket) []string {
			lost := harm(b)
			b.unreadable = map[string][]byte{}
			for name, content := range b.files {
				if !bytes.Equal(content, base.files[name]) {
					b.unreadable[name] = content
				}
			}
			return lost
		}
	}
	// foreign reports whether no file of a day can be read, as with other keys. Repair then leaves the day.
	foreign := func(b *fakeBucket, day string) bool {
		n := 0
		for name := range b.files {
			if strings.HasPrefix(name, day) {
				if b.unreadable[name] == nil {
					return false
				}
				n++
			}
		}
		return n > 0
	}
	for name, harm := range harms {
		b := base.clone()
		lost := harm(b)
		want := map[string]bool{}
		for _, name := range data(b) {
			if slices.Contains(lost, name) {
				continue
			}
			whole := newFake() // the file alone
			whole.files[name] = b.files[name]
			if day, file, _ := strings.Cut(name, "/"); strings.HasPrefix(file, "merged-") {
				whole.files[day+"/_manifest-000001.json"] = archive.ManifestOf(t, file)
			}
			for _, id := range lives(t, whole) {
				want[id] = true
			}
		}
		before := maps.Clone(b.files)
		dry, err := archive.Repair(t.Context(), b, nil)
		if errors.Is(err, archive.ErrCorrupt) && (foreign(b, "day=2026-11-22") || foreign(b, "day=2026-11-23")) {
			continue
		}
		if err != nil || !maps.EqualFunc(b.files, before, func(x, y []byte) bool { return string(x) == string(y) }) {
			t.Errorf("%s: a dry run: %v", name, err)
		}
		if _, err := archive.NewReader(b).Verify(t.Context(), nil); dry.Days > 0 != errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: verified: %v; repair finds %d days", name, err, dry.Days)
		}
		r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		ok(t, err)
		slices.Sort(r.Lists["lost"])
		if !slices.Equal(r.Lists["lost"], lost) || fmt.Sprint(dry.Lists["lost"], dry.Lists["restored"]) != fmt.Sprint(r.Lists["lost"], r.Lists["restored"]) && len(lost) < 2 {
			t.Errorf("%s: lost are %q; want %q", name, r.Lists["lost"], lost)
		}
		for _, when := range []string{"repaired", "compacted"} {
			if got := lives(t, b); len(got) != len(want) || slices.ContainsFunc(got, func(id string) bool { return !want[id] }) {
				t.Errorf("%s, %s: %d lives are found; want %d", name, when, len(got), len(want))
			}
			if _, err := archive.NewReader(b).Verify(t.Context(), nil); err != nil {
				t.Errorf("%s, %s: %v", name, when, err)
			}
			compact(t, b)
		}
		if again, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true}); err != nil || again.Days != 0 {
			t.Errorf("%s, again: %+v, %v", name, again, err)
		}
		if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(1, 0).Key}}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file whose rows are in files that a crash left is replaced by these. A file that is not the
// archive's is named, and left.
func TestRepairFromLeftFiles(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 20, 0), batch(20, 40, 0))
	want := lives(t, b)
	before := b.clone()
	compact(t, b)
	for name := range b.clone().files {
		if strings.Contains(name, "/merged-") {
			delete(b.files, name)
		}
	}
	maps.Copy(b.files, before.files)
	b.files["day=2026-11-22/other.parquet"] = []byte("PAR1")
	r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
	if err != nil || len(r.Lists["lost"]) != 1 || len(r.Lists["restored"]) != 2 || r.Rows != 40 || len(r.Lists["foreign"]) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	delete(b.files, r.Lists["foreign"][0]) // Forget would name it
	write(t, writer(t, b), batch(40, 41, 0))
	for range 2 {
		if got := lives(t, b); !slices.Equal(got[:40], want) || len(got) != 41 {
			t.Errorf("%d lives are found", len(got))
		}
		_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(40, 0).Key}}, nil) // keeps the restored batches
		ok(t, err)
		if got := lives(t, b); !slices.Equal(got, want) {
			t.Errorf("%d lives are found beside what was forgotten", len(got))
		}
		write(t, writer(t, b), batch(39, 41, 0))
		compact(t, b)
	}
}

// A source that hands over batches again whose merged file is lost is not told that the archive has
// them: Write fails until Repair has declared the file lost, and then writes them. Other batches are
// written throughout.
func TestWriteAfterLoss(t *testing.T) {
	archive.Shorten(t, 5, 1) // each merged file has five rows
	cut := func(b *fakeBucket, name string) { b.files[name] = b.files[name][:20] }
	for name, c := range map[string]struct {
		gone bool // or cut
		n    int  // merged files lost
		left bool // a crash has left the batches, and one of them is cut
	}{
		"one":      {true, 1, false},
		"all":      {true, 2, false},
		"cut":      {false, 1, false},
		"left":     {true, 2, true},
		"left cut": {false, 1, true},
	} {
		b := newFake()
		running := writer(t, b) // all the time, as a source's is
		write(t, running, batch(0, 5, 0), batch(5, 10, 0))
		want := lives(t, b)
		before := b.clone()
		compact(t, b)
		n := c.n
		for file := range b.clone().files {
			if strings.Contains(file, "/merged-") && n > 0 {
				cut(b, file)
				if n--; c.gone {
					delete(b.files, file)
				}
			}
		}
		if c.left {
			for i, file := range slices.Sorted(maps.Keys(before.files)) {
				b.files[file] = before.files[file]
				if i == 0 {
					cut(b, file)
				}
			}
		}
		left := writer(t, b)
		if c.gone {
			for _, i := range []int{0, 5} {
				if err := hand(t.Context(), left, batch(i, i+5, 0)); !errors.Is(err, archive.ErrCorrupt) {
					t.Errorf("%s: before Repair: %v", name, err)
				}
			}
			write(t, left, batch(10, 15, 0))
		} else {
			left = nil // a cut file is found when it is read
		}
		_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		ok(t, err)
		_, err = archive.NewReader(b).Verify(t.Context(), nil)
		ok(t, err)
		for _, w := range []*archive.Writer{running, left, writer(t, b)} {
			if w == nil {
				continue
			}
			write(t, w, batch(0, 5, 0), batch(5, 10, 0), batch(10, 15, 0))
			if got := lives(t, b); len(got) != 15 || !slices.Equal(got[:10], want) {
				t.Errorf("%s: %d lives are found; want 15", name, len(got))
			}
		}
		compact(t, b)
		if got := lives(t, b); len(got) != 15 {
			t.Errorf("%s, compacted: %d lives are found; want 15", name, len(got))
		}
		_, err = archive.NewReader(b).Verify(t.Context(), nil)
		ok(t, err)
	}
}

// A source that hands over a batch again whose own file is cut is not told that the archive has it: it would
// delete the only copy.
func TestWriteAfterCut(t *testing.T) {
	for _, missing := range []bool{false, true} { // another file of the day
		b := newFake()
		running := writer(t, b)
		write(t, running, batch(10, 15, 0), batch(15, 20, 0))
		compact(t, b)
		merged := files(t, b)
		write(t, running, batch(0, 5, 0))
		for name := range b.files {
			if strings.Contains(name, "/batch-") {
				b.files[name] = b.files[name][:20]
			}
		}
		for _, name := range merged {
			if missing && strings.Contains(name, "/merged-") {
				delete(b.files, name)
			}
		}
		for _, w := range []*archive.Writer{running, writer(t, b)} {
			if err := hand(t.Context(), w, batch(0, 5, 0)); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("before Repair: %v", err)
			}
		}
		_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		ok(t, err)
		write(t, running, batch(0, 5, 0), batch(10, 15, 0), batch(15, 20, 0))
		if got := lives(t, b); len(got) != 15 {
			t.Errorf("%d lives are found; want 15", len(got))
		}
	}
}

// The same of a batch whose merged file is cut.
func TestWriteAfterMergedCut(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 5, 0), batch(5, 10, 0))
	compact(t, b)
	for name := range b.files {
		if strings.Contains(name, "/merged-") {
			b.files[name] = b.files[name][:20]
		}
	}
	w := writer(t, b)
	for range 2 {
		if err := hand(t.Context(), w, batch(0, 5, 0)); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("before Repair: %v", err)
		}
	}
	_, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
	ok(t, err)
	write(t, w, batch(0, 5, 0), batch(5, 10, 0))
	if got := lives(t, b); len(got) != 10 {
		t.Errorf("%d lives are found; want 10", len(got))
	}
}

// Two processes have handed over one batch, and one of its two files is cut or lost. Whatever runs in
// whatever order then, the other file keeps the batch, each life is told once, and what was forgotten is
// in no file.
func TestTwoCopies(t *testing.T) {
	base, other := newFake(), newFake()
	write(t, writer(t, base), batch(0, 5, 0))
	later, err := archive.NewWriter(other, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 8) }})
	ok(t, err)
	write(t, later, batch(0, 5, 0))
	copies := append(files(t, base), files(t, other)...)
	maps.Copy(base.files, other.files)
	forgotten := dead(1, 0).Key
	steps := map[string]func(b *fakeBucket) error{
		"compact": func(b *fakeBucket) error {
			_, err := archive.Compact(t.Context(), b, nil)
			return err
		},
		"repair": func(b *fakeBucket) error {
			r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
			if err == nil && len(r.Lists["lost"]) > 0 {
				err = fmt.Errorf("%v is lost", r.Lists["lost"])
			}
			return err
		},
		"forget": func(b *fakeBucket) error {
			_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{forgotten}}, nil)
			return err
		},
		"write": func(b *fakeBucket) error { return hand(t.Context(), writer(t, b), batch(0, 5, 0)) },
		"verify": func(b *fakeBucket) error {
			_, err := archive.NewReader(b).Verify(t.Context(), nil)
			return err
		},
	}
	harms := map[string]func(content []byte) []byte{
		"lost": func([]byte) []byte { return nil },
		"cut":  func(content []byte) []byte { return content[:50] },
		"flipped": func(content []byte) []byte {
			content = slices.Clone(content)
			content[len(content)/2] ^= 4
			return content
		},
	}
	all := []string{"compact", "repair", "forget", "write"}
	for harm, done := range harms {
		for _, which := range copies {
			for beside := range 2 { // other batches of the day
				for n := range len(all) * len(all) {
					order := []string{all[n%4], all[n/4]}
					name := fmt.Sprint(harm, " ", slices.Index(copies, which), ", beside ", beside, ": ", order)
					b := base.clone()
					for i := range beside {
						write(t, writer(t, b), batch(5+5*i, 10+5*i, 0))
					}
					if b.files[which] = done(b.files[which]); b.files[which] == nil {
						delete(b.files, which)
					}
					forgot := false
					for _, step := range append(order, "repair", "compact", "verify") {
						err := steps[step](b)
						if err != nil && !errors.Is(err, archive.ErrCorrupt) {
							t.Errorf("%s: %s: %v", name, step, err)
						}
						forgot = forgot || step == "forget" && err == nil
						told := map[string]int{}
						for a, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
							if err == nil {
								told[a.Key]++
							} else if !errors.Is(err, archive.ErrCorrupt) || step == "repair" || step == "verify" {
								t.Errorf("%s: after %s: %v", name, step, err)
							}
						}
						for i := range 5 + 5*beside {
							key := dead(i, 0).Key
							n := told[key]
							if n > 1 || n == 0 && (key != forgotten || !slices.Contains(order, "forget")) || n > 0 && key == forgotten && forgot {
								t.Errorf("%s: after %s: %s is told %d times", name, step, key, n)
							}
						}
						if step == "verify" && err != nil {
							t.Errorf("%s: %v", name, err)
						}
						if step != "verify" && forgot {
							for file, content := range b.files {
								if holds(t, file, content, forgotten) {
									t.Errorf("%s: after %s: %s holds what was forgotten", name, step, file)
								}
							}
						}
					}
				}
			}
		}
	}
}

// A flipped bit of a manifest file hides no record: what it says is told as it was, or the day is corrupt,
// no operation removes its files, and Repair makes them count again.
func TestFlippedManifest(t *testing.T) {
	archive.Shorten(t, 5, 1) // each merged file has five rows
	base := newFake()
	write(t, writer(t, base), batch(0, 5, 0), batch(5, 10, 0))
	compact(t, base)
	names := files(t, base)
	name := names[slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "_manifest-") })]
	told := func(b archive.Bucket) (n int, failed error) {
		for _, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
			if err == nil {
				n++
			}
			failed = errors.Join(failed, err)
		}
		return n, failed
	}
	flip := func(at, bit int) {
		b := base.clone()
		b.files[name] = slices.Clone(b.files[name])
		b.files[name][at] ^= 1 << bit
		n, err := told(b)
		if err == nil && n != 10 || err != nil && !errors.Is(err, archive.ErrCorrupt) || errors.Is(err, archive.ErrVersion) {
			t.Errorf("byte %d: %d lives are told, %v", at, n, err)
		}
		_, _ = archive.Compact(t.Context(), b, nil)
		_, err = archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		if n, failed := told(b); err != nil || failed != nil || n != 10 {
			t.Errorf("byte %d, repaired: %d lives are told, %v, %v", at, n, err, failed)
		}
	}
	for at := range base.files[name] {
		flip(at, at%8)
	}
	for bit := range 8 { // not another version
		flip(bytes.IndexByte(base.files[name], '2'), bit)
	}
}

// A merged file whose manifest file is lost is not taken for one that never counted: the day is corrupt,
// no operation removes the file, and Repair makes it count again.
func TestRepairLostManifest(t *testing.T) {
	for _, lost := range []int{1, 2} { // of that many
		b := newFake()
		w := writer(t, b)
		for n := range lost {
			write(t, w, batch(20*n, 20*n+10, 0), batch(20*n+10, 20*n+20, 0))
			compact(t, b)
		}
		want := lives(t, b)
		delete(b.files, fmt.Sprintf("day=2026-11-22/_manifest-%06d.json", lost))
		for _, again := range []bool{false, true} {
			if v, err := archive.NewReader(b).Verify(t.Context(), nil); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("%d, again %v: verified %v, %v", lost, again, v, err)
			}
			if _, err := archive.NewReader(b).Find(t.Context(), dead(5, 0).Key, archive.Span{}); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("%d, again %v: found, %v", lost, again, err)
			}
			write(t, writer(t, b), batch(100, 110, 0), batch(110, 120, 0)) // of another source
			if _, err := archive.Compact(t.Context(), b, nil); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("%d, again %v: compacted, %v", lost, again, err)
			}
		}
		dropped := b.clone()
		_, err := archive.Retain(t.Context(), dropped, 1, &archive.Walk{Apply: true, Quiet: true, Now: func() time.Time { return noon.AddDate(0, 0, 9) }})
		ok(t, err)
		for _, name := range files(t, dropped) {
			if strings.HasSuffix(name, ".parquet") {
				t.Errorf("%d: Retain left %s", lost, name)
			}
		}
		_, err = archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(5, 0).Key}}, nil)
		if !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%d: forgotten, %v", lost, err)
		}
		r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		if err != nil || len(r.Lists["lost"]) != 0 || r.Days != 1 {
			t.Errorf("%d: %v, %v", lost, r, err)
		}
		for range 2 {
			if got := lives(t, b); len(got) != len(want)+20 || !slices.Equal(got[:len(want)], want) {
				t.Errorf("%d: %d lives are found; want %d", lost, len(got), len(want)+20)
			}
			compact(t, b)
		}
	}
}

// Repair leaves an archive that is encrypted, and of which it has no keys, or others: whatever it would write or remove
// takes records from those who have them.
func TestRepairEncrypted(t *testing.T) {
	b := newFake()
	w := writer(t, b)
	write(t, w, batch(0, 10, 0), batch(10, 20, 0), batch(20, 30, 1))
	compact(t, b)
	write(t, w, batch(30, 40, 0), batch(40, 50, 2))
	_, err := archive.Retain(t.Context(), b, 1, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 2) }})
	ok(t, err) // day 0 has but a manifest file
	write(t, w, batch(50, 60, 3), batch(60, 70, 3))
	compact(t, b)
	write(t, w, batch(70, 80, 3))
	dice := rand.New(rand.NewPCG(5, 6))
	for name, plain := range b.files {
		secret := make([]byte, len(plain)+16)
		for i := range secret {
			secret[i] = byte(1 + dice.IntN(60)) // neither P nor {
		}
		b.files[name] = secret
	}
	before := maps.Clone(b.files)
	for _, keys := range []string{"none", "others"} {
		if keys == "others" {
			b.unreadable = before
		}
		r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
		if !errors.Is(err, archive.ErrCorrupt) || len(r.Lists["lost"]) != 0 || r.Days != 0 {
			t.Errorf("keys: %s: %v, %v", keys, r, err)
		}
		if !maps.EqualFunc(b.files, before, func(x, y []byte) bool { return string(x) == string(y) }) {
			t.Errorf("keys: %s: Repair changed files", keys)
		}
	}
}

// A read that fails for a moment removes no file. The file is whole by its checksum and has a record of another day.
func TestRepairDuringFault(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 5, 0), batch(5, 10, 1))
	odd := ""
	for _, name := range files(t, base) {
		if other, ok := strings.CutPrefix(name, "day=2026-11-23/"); ok {
			odd = "day=2026-11-22/" + other
			base.files[odd] = base.files[name]
			delete(base.files, name)
		}
	}
	for at, more := 1, true; more; at++ {
		b := base.clone()
		f := &failingRead{fakeBucket: b, left: at}
		_, err := archive.Repair(t.Context(), f, &archive.Walk{Apply: true})
		if more = f.left <= 0; more && !errors.Is(err, errBlink) {
			t.Errorf("read %d failed: %v", at, err)
		}
		if b.files[odd] == nil {
			t.Errorf("read %d failed, and the file is removed: %v", at, err)
		}
	}
}

var errBlink = errors.New("503 slow down")

// failingRead fails one read of a data file.
type failingRead struct {
	*fakeBucket
	left int // reads until then
}

func (f *failingRead) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if f.left--; f.left == 0 {
		return 0, errBlink
	}
	return f.fakeBucket.ReadAt(ctx, name, p, off)
}

// Of a merged file that is there under both names, and whole under the first, Repair loses nothing: whether
// its manifest file is there, whether Repair is killed, and whether a Compact comes then.
func TestRepairBothNames(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 4, 0))
	former := base.clone()
	compact(t, base)
	write(t, writer(t, base), batch(4, 5, 0))
	days := harmedDays(t, base, former)
	for _, name := range []string{"both names", "no manifest"} {
		for kill := -1; kill < 4; kill++ {
			b := days[name].clone()
			if kill >= 0 {
				if _, err := archive.Repair(t.Context(), crash(b, kill, true), &archive.Walk{Apply: true}); err == nil {
					break
				}
			}
			for range 2 {
				r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
				if got := lives(t, b); err != nil || len(r.Lists["lost"]) > 0 || len(got) != 5 {
					t.Errorf("%s, killed at %d: %d lives are found, %v, %v", name, kill, len(got), r, err)
				}
				compact(t, b)
			}
		}
	}
}

// Repair brings back nothing that was forgotten where no record is lost.
func TestRepairWithoutLoss(t *testing.T) {
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 4, 0))
	former := base.clone()
	compact(t, base)
	write(t, writer(t, base), batch(4, 5, 0))
	b := harmedDays(t, base, former)["two copies"]
	key := dead(2, 0).Key
	_, err := archive.Forget(t.Context(), crash(b, 2, false), archive.Selection{Keys: []string{key}}, nil) // it has committed
	if err == nil || readable(t, b)[key] {
		t.Fatalf("it is not forgotten: %v", err)
	}
	r, err := archive.Repair(t.Context(), b, &archive.Walk{Apply: true})
	if got := readable(t, b); err != nil || len(r.Lists["lost"]) != 0 || got[key] || len(got) != 4 {
		t.Errorf("%v, %v: %v", r, err, got)
	}
}
