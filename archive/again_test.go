package archive_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// TestCompactOfFullFiles: where the files of a day do not fit into one merge, and each merge writes as many as it
// read, Compact comes to its end, and the next one has nothing to do.
func TestCompactOfFullFiles(t *testing.T) {
	archive.Shorten(t, 2, 1)
	archive.Narrow(t, 64<<10)
	b := newFake()
	w := writer(t, b)
	for i := range 60 {
		write(t, w, batch(i*2, i*2+2, 0))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := archive.Compact(ctx, b, nil)
	ok(t, err)
	if got := lives(t, b); r.Files > 60 || len(got) != 120 {
		t.Errorf("%v; %d lives", r, len(got))
	}
	if r, err := archive.Compact(ctx, b, nil); err != nil || r.Files != 0 {
		t.Errorf("again: %v, %v", r, err)
	}
}

// losing is a bucket of which the answer to a Create is lost.
type losing struct {
	archive.Bucket
	now bool
}

var errAnswerLost = errors.New("lost")

func (l *losing) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	err := l.Bucket.Create(ctx, dir, write)
	if err == nil && l.now {
		return errAnswerLost
	}
	return err
}

// TestWriteOfAnothersBatch: a Writer that knows a day, and not that another process, or a Write of its own whose answer
// was lost, has put the batch there, does not call it archived while the file that it was merged into is damaged.
func TestWriteOfAnothersBatch(t *testing.T) {
	for _, lost := range []bool{false, true} {
		d, dir := directory(t)
		b := &losing{Bucket: d}
		w := writer(t, b)
		write(t, w, batch(0, 5, 0))
		if lost {
			b.now = true
			if err := hand(t.Context(), w, batch(5, 10, 0)); !errors.Is(err, errAnswerLost) {
				t.Fatal(err)
			}
			b.now = false
		} else {
			write(t, writer(t, d), batch(5, 10, 0))
		}
		compact(t, d)
		names, err := filepath.Glob(filepath.Join(dir, "day=*", "merged-*.parquet"))
		ok(t, err)
		content, err := os.ReadFile(names[0])
		ok(t, err)
		content[len(content)/4] ^= 1
		ok(t, os.WriteFile(names[0], content, 0o600))
		if err := hand(t.Context(), w, batch(5, 10, 0)); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("lost %v: %v", lost, err)
		}
	}
}

// reading counts the bytes that are read of a bucket.
type reading struct {
	archive.Bucket
	bytes atomic.Int64
}

func (r *reading) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := r.Bucket.ReadAt(ctx, name, p, off)
	r.bytes.Add(int64(n))
	return n, err
}

// TestWriteAllAgain: a source that hands over a day's batches once more does not make the archive read the day for
// each of them.
func TestWriteAllAgain(t *testing.T) {
	b := &reading{Bucket: newFake()}
	w := writer(t, b)
	for i := range 60 {
		write(t, w, batch(i*50, i*50+50, 0))
	}
	compact(t, b)
	size := int64(0)
	for i, err := range b.List(t.Context(), "") {
		ok(t, err)
		size += i.Size
	}
	b.bytes.Store(0)
	w = writer(t, b)
	for i := range 60 {
		write(t, w, batch(i*50, i*50+50, 0))
	}
	if n := b.bytes.Load(); n > 3*size {
		t.Errorf("%d bytes were read of an archive of %d", n, size)
	}
}

// TestRepairLeavesWholeFiles: a file that is whole and stands in another day's directory is no damage that Repair may
// remove.
func TestRepairLeavesWholeFiles(t *testing.T) {
	d, dir := directory(t)
	write(t, writer(t, d), batch(0, 5, 0), batch(5, 10, 1))
	names, err := filepath.Glob(filepath.Join(dir, "day=2026-11-23", "batch-*.parquet"))
	ok(t, err)
	ok(t, os.Rename(names[0], filepath.Join(dir, "day=2026-11-22", filepath.Base(names[0]))))
	before := lives(t, d)
	if _, err := archive.Repair(t.Context(), d, &archive.Walk{Apply: true}); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("Repair: %v", err)
	}
	if after := lives(t, d); !slices.Equal(before, after) || len(after) != 10 {
		t.Errorf("%d lives were told before, %d after", len(before), len(after))
	}
}

// dying is a bucket with versions of which a process dies.
type dying struct {
	*crashing
	of *fakeBucket
}

func (d *dying) Hidden(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return d.of.Hidden(ctx, prefix)
}

func (d *dying) Removable(context.Context, string) error { return nil }

// TestForgetHiddenKilled: what a Forget has removed with a file that no reader sees, before it was killed, is in the
// report of the next.
func TestForgetHiddenKilled(t *testing.T) {
	for _, version := range []bool{false, true} {
		b := newFake()
		write(t, writer(t, b), batch(0, 3, 0))
		name, key := files(t, b)[0], archive.Selection{Keys: []string{dead(1, 0).Key}}
		content := b.files[name]
		_, err := archive.Forget(t.Context(), b, key, nil)
		ok(t, err)
		if b.files[name] = content; version {
			delete(b.files, name)
			b.files[name+"?1"] = content
		}
		for calls := 0; ; calls++ {
			c := b.clone()
			var saved *archive.Report
			o := &archive.ForgetOptions{Save: func(r *archive.Report) error { saved = r; return nil }}
			if _, err := archive.Forget(t.Context(), &dying{crash(c, calls, true), c}, key, o); err == nil {
				break
			}
			o.Before = saved
			r, err := archive.Forget(t.Context(), c, key, o)
			ok(t, err)
			if a := r.Asked[0]; a.Records+a.Hidden == 0 {
				t.Errorf("version %v, killed at change %d: %+v", version, calls, a)
			}
		}
	}
}

// A merged file that takes longer to read than a Writer believes a checksum is not read again for each batch.
func TestCheckSumSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFake()
		content := make([]byte, 7000)
		b.files["merged"] = content
		reads := 0
		b.reading = func() {
			reads++
			time.Sleep(70 * time.Second)
		}
		w := writer(t, b)
		for range 60 {
			ok(t, w.CheckSum(t.Context(), "merged", len(content), fmt.Sprintf("%x", sha256.Sum256(content))))
			time.Sleep(time.Second)
		}
		if reads > 1 {
			t.Errorf("%d reads", reads)
		}
		time.Sleep(time.Hour)
		b.files["merged"] = content[1:]
		if err := w.CheckSum(t.Context(), "merged", len(content), fmt.Sprintf("%x", sha256.Sum256(content))); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// gate is a bucket that calls a function with the name of a file before the file is there.
type gate struct {
	archive.Bucket
	before func(name string)
}

func (g *gate) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	return g.Bucket.Create(ctx, dir, func(w io.Writer) (string, error) {
		name, err := write(w)
		if g.before != nil && err == nil {
			g.before(name)
		}
		return name, err
	})
}

// While a Writer writes a batch, another process writes it too, a Compact merges that, and the merged file is
// damaged. Write says so, whatever the Writer has come to know of the day meanwhile: it writes another batch of
// the day at once, or batches of so many days that it forgets this one.
func TestWriteWhileMerged(t *testing.T) {
	damage := func(b *fakeBucket, cut ...lot) {
		write(t, writer(t, b), cut...)
		compact(t, b)
		for name, content := range b.clone().files {
			if strings.Contains(name, "day=2026-11-22/merged-") {
				content = slices.Clone(content)
				content[len(content)/4] ^= 1
				_ = b.set(name, content, false)
			}
		}
	}
	for _, many := range []bool{false, true} {
		b := newFake()
		g := &gate{Bucket: b}
		w, err := archive.NewWriter(g, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
		ok(t, err)
		write(t, w, batch(0, 5, 0)) // it knows the day
		cuts := []lot{batch(5, 10, 0)}
		if many {
			g.before = func(string) {
				g.before = nil
				damage(b, cuts...)
				for day := range 520 {
					write(t, w, batch(0, 1, -1-day))
				}
			}
		} else {
			cuts = append(cuts, batch(10, 15, 0))
			both := make(chan struct{}, 2)
			goOn := make(chan struct{})
			g.before = func(string) { both <- struct{}{}; <-goOn }
			go func() {
				<-both
				<-both
				damage(b, cuts...)
				close(goOn)
			}()
		}
		errs := make([]error, len(cuts))
		var wg sync.WaitGroup
		for i, cut := range cuts {
			wg.Go(func() { errs[i] = w.Write(t.Context(), cut.Source, cut.Records) })
		}
		wg.Wait()
		for i, err := range errs {
			if !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("many days %v, batch %d: %v", many, i, err)
			}
		}
	}
}
