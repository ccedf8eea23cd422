package archive_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// harmedDays are days like base, which was merged from the files of former and then got a batch, after bytes
// or files of them were lost. All lives of base are in whole files, but for those of "leftover" and "damaged batch".
func harmedDays(t *testing.T, base, former *fakeBucket) map[string]*fakeBucket {
	flip := func(b *fakeBucket, name string) {
		b.files[name] = slices.Clone(b.files[name])
		b.files[name][len(b.files[name])/3] ^= 1
	}
	named := func(part string) string {
		names := files(t, base)
		return names[slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, part) })]
	}
	merged, manifest := named("/merged-"), named("/_manifest-")
	days := map[string]*fakeBucket{}
	for _, name := range []string{"former files", "damaged copy", "both names", "no manifest", "two copies", "two copies, no manifest", "leftover", "damaged batch", "batch beside leftover", "damaged leftover"} {
		b := base.clone()
		days[name] = b
		switch name {
		case "former files": // a Compact was killed before it removed them
			maps.Copy(b.files, former.files)
			flip(b, merged)
		case "damaged copy": // and a Repair before its commit
			maps.Copy(b.files, former.files)
			flip(b, merged)
			if _, err := archive.Repair(t.Context(), crash(b, 0, true), &archive.Walk{Apply: true}); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			flip(b, pick(t, b, "/_merged-")[0])
		case "leftover": // of a Compact that was killed before its commit; it alone has the lives of a batch
			b = former.clone()
			days[name] = b
			if _, err := archive.Compact(t.Context(), crash(b, 0, true), nil); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			delete(b.files, pick(t, b, "/batch-")[slices.IndexFunc(pick(t, b, "/batch-"), func(name string) bool {
				return holds(t, name, b.files[name], dead(2, 0).Key)
			})])
		case "damaged batch", "batch beside leftover", "damaged leftover": // a leftover is of a Compact that was killed before its commit
			b = former.clone()
			days[name] = b
			write(t, writer(t, b), batch(4, 5, 0))
			if name != "damaged batch" {
				if _, err := archive.Compact(t.Context(), crash(b, 0, true), nil); !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
			}
			if name == "damaged leftover" {
				flip(b, pick(t, b, "/_merged-")[0])
			} else {
				flip(b, named("/batch-"))
			}
		case "no manifest":
			delete(b.files, manifest)
			fallthrough
		case "both names": // a Rename was killed before it removed the first
			b.files[strings.TrimSuffix(strings.Replace(merged, "/merged", "/_merged", 1), ".parquet")] = b.files[merged]
			flip(b, merged)
		case "two copies, no manifest":
			flip(b, manifest)
			fallthrough
		case "two copies": // by two processes
			later, err := archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 8) }})
			ok(t, err)
			own := named("/batch-")
			content := b.files[own]
			delete(b.files, own)
			write(t, later, batch(4, 5, 0))
			b.files[own] = content
			flip(b, own)
		}
	}
	return days
}

// readable returns the keys of the records that can be read, each told once.
func readable(t *testing.T, b archive.Bucket) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	for a, err := range archive.NewReader(b).All(t.Context(), archive.Span{}) {
		switch {
		case err != nil && !errors.Is(err, archive.ErrCorrupt):
			t.Error(err)
		case err == nil && keys[a.Key]:
			t.Errorf("%s is told twice", a.Key)
		case err == nil:
			keys[a.Key] = true
		}
	}
	return keys
}

// pick returns the names of the files of b that contain part.
func pick(t *testing.T, b archive.Bucket, part string) []string {
	t.Helper()
	names := slices.DeleteFunc(files(t, b), func(name string) bool { return !strings.Contains(name, part) })
	slices.Sort(names)
	return names
}
