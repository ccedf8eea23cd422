//go:build !race

// The programs of a run take turns, so that the race detector would see nothing and take nine
// times as long.

package archive_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/archive"
)

// crashes are the explorations: how many programs run at once, and whether they also stop before
// reads.
var crashes = []crashRun{{2, false}}

type crashRun struct {
	depth int
	reads bool
}

// atNight says that the slow tests run too.
var atNight = false

// forgotten is the record that the program forget forgets.
const forgotten = 2

// Two programs work at one day. One stops before any of its calls to the bucket, and the other
// runs meanwhile. One of them is ended before any of its changes, or told that a change failed
// that was made. Then the day is read, and each program runs once more. No life is lost or told
// twice, what was forgotten is nowhere, and nothing left the source that is not in the archive.
// At night there are three programs, each stopped within the one before.
func TestEveryCrash(t *testing.T) {
	archive.Shorten(t, 2, 1) // so that a day has several merged files
	base := newFake()
	write(t, writer(t, base), batch(0, 3, 0), batch(3, 4, 0))
	compact(t, base)
	write(t, writer(t, base), batch(4, 5, 0))
	for _, c := range crashes {
		x := &explorer{t: t, base: base, reads: c.reads, seen: map[uint64]bool{}}
		var g errgroup.Group
		g.SetLimit(runtime.GOMAXPROCS(0))
		for tuple := range tuples(c.depth) {
			g.Go(func() error {
				err := x.explore(tuple)
				if c.depth > 2 {
					t.Logf("%q is explored", tuple)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d programs at once: %d runs, %d archives", c.depth, x.runs, len(x.seen))
	}
}

// tuples yields all combinations of n names of programs.
func tuples(n int) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if n == 0 {
			yield(nil)
			return
		}
		for rest := range tuples(n - 1) {
			for _, name := range slices.Sorted(maps.Keys(programs)) {
				if !yield(append(slices.Clone(rest), name)) {
					return
				}
			}
		}
	}
}

// programs are what works at an archive. Each returns nil when it did what it promises.
var programs = map[string]func(context.Context, archive.Bucket, *source) error{
	"write": func(ctx context.Context, b archive.Bucket, s *source) error { return s.bury(ctx, b, 4, 6) },
	"harvest": func(ctx context.Context, b archive.Bucket, s *source) error {
		w, err := s.writer(b)
		if err != nil {
			return err
		}
		at, err := w.Checkpoint(ctx, "harvest")
		if err != nil {
			return err
		}
		for i := 6 + len(at); i < 8; i++ {
			if err := s.bury(ctx, b, i, i+1); err != nil {
				return err
			}
			at = append(at, 'x')
			if err := w.SaveCheckpoint(ctx, "harvest", at); err != nil {
				return err
			}
		}
		return nil
	},
	"compact": func(ctx context.Context, b archive.Bucket, _ *source) error {
		_, err := archive.Compact(ctx, b, nil)
		return err
	},
	"forget": func(ctx context.Context, b archive.Bucket, _ *source) error {
		_, err := archive.Forget(ctx, b, archive.Selection{Keys: []string{dead(forgotten, 0).Key}}, nil)
		return err
	},
	"retain": func(ctx context.Context, b archive.Bucket, _ *source) error {
		_, err := archive.Retain(ctx, b, 1, &archive.RetainOptions{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
		return err
	},
}

// source is where the dead come from: it deletes what is archived.
type source struct {
	deleted [8]bool // by record
}

func (*source) writer(b archive.Bucket) (*archive.Writer, error) {
	return archive.NewWriter(b, &archive.WriterOptions{Now: func() time.Time { return noon.AddDate(0, 0, 7) }})
}

func (s *source) bury(ctx context.Context, b archive.Bucket, from, to int) error {
	w, err := s.writer(b)
	if err != nil {
		return err
	}
	if err := w.Write(ctx, batch(from, to, 0)); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		s.deleted[i] = true
	}
	return nil
}

// explorer runs tuples of programs in all ways.
type explorer struct {
	t    *testing.T
	base *fakeBucket

	reads bool // stop before reads too

	mu   sync.Mutex
	runs int             // guarded by mu, as is seen
	seen map[uint64]bool // archives that were judged, with what was expected of them
}

// fault is what happens to one of the programs, at a change that it makes.
type fault struct {
	who, at int  // the program, and the number of the change
	lost    bool // the change is made and the program told that it failed; else the program is ended before it
}

// explore runs programs of these names in all ways.
func (x *explorer) explore(tuple []string) error {
	for who := range tuple {
		for _, lost := range []bool{false, true} {
			for at, hit := 0, true; hit; at++ {
				hit = false
				stops := make([]int, len(tuple)-1)
				for {
					ran, err := x.run(tuple, stops, fault{who, at, lost})
					if err != nil {
						return err
					}
					hit = hit || ran.hit
					// Count up: the innermost first. A program that ended before it stopped is at its last stop.
					i := len(stops) - 1
					for ; i >= 0 && !ran.stopped[i]; i-- {
						stops[i] = 0
					}
					if i < 0 {
						break
					}
					stops[i]++
				}
			}
		}
	}
	return nil
}

// outcome is what happened in a run.
type outcome struct {
	hit     bool   // the fault
	stopped []bool // by program; whether it reached its stop
}

var errLost = errors.New("the answer was lost")

// run has each program start within the one before, when that stops. The last does not stop.
func (x *explorer) run(tuple []string, stops []int, f fault) (o outcome, err error) {
	x.mu.Lock()
	x.runs++
	x.mu.Unlock()
	b, src := x.base.clone(), new(source)
	parties := make([]*stage, len(tuple))
	for i, name := range tuple {
		p := &stage{Bucket: b, reads: x.reads, stop: -1, fault: -1, lost: f.lost, waits: make(chan bool, 1), again: make(chan struct{})}
		if i < len(stops) {
			p.stop = stops[i]
		}
		if i == f.who {
			p.fault = f.at
		}
		parties[i] = p
		go func() {
			p.err = programs[name](x.t.Context(), p, src)
			p.waits <- false
		}()
		o.stopped = append(o.stopped, <-p.waits)
	}
	when := fmt.Sprintf("%q, stopped at %v, %s with %+v", tuple, stops, tuple[f.who], f)
	e := expectation{source: *src}
	if err := x.judge(b, e.of(tuple, nil), when+", within"); err != nil {
		return o, err
	}
	var left []int // programs in the order of their ends
	for i, p := range slices.Backward(parties) {
		if o.stopped[i] {
			close(p.again)
			<-p.waits
		}
		left = append(left, i)
	}
	o.hit = parties[f.who].hit
	for i, p := range parties {
		if p.err != nil && (!p.hit || p.committed) { // an operation recognises its own commit
			return o, fmt.Errorf("%s: %s: %w", when, tuple[i], p.err)
		}
	}
	e.source = *src
	after := e.of(tuple, parties)
	// What a program that was ended wrote after Forget had returned stays until Forget runs again.
	after.nowhere = after.nowhere && (!o.hit || slices.Index(left, f.who) < slices.Index(left, slices.Index(tuple, "forget")))
	if err := x.judge(b, after, when); err != nil {
		return o, err
	}
	return o, x.again(b, src, tuple, when)
}

// again runs each program once more.
func (x *explorer) again(b *fakeBucket, src *source, tuple []string, when string) error {
	e := expectation{source: *src}
	if x.known(b, e, "again "+strings.Join(slices.Sorted(slices.Values(tuple)), " ")) {
		return nil
	}
	b = b.clone()
	for _, name := range append(slices.Clone(tuple), "compact") {
		if err := programs[name](x.t.Context(), b, src); err != nil {
			return fmt.Errorf("%s: %s again: %w", when, name, err)
		}
	}
	e.source = *src
	e = e.of(tuple, nil)
	e.ended = true
	e.nowhere = slices.Contains(tuple, "forget")
	if e.nowhere {
		e.never[forgotten] = true
	}
	if slices.Contains(tuple, "retain") {
		e.never[0] = true
	}
	return x.judge(b, e, when+", again")
}

// expectation is what an archive must have.
type expectation struct {
	source
	must, never [8]bool // by record
	nowhere     bool    // what was forgotten is in no file
	ended       bool    // all programs have ended and run again
}

// of returns what the programs of tuple may have done; those of parties without an error have
// kept their promises.
func (e expectation) of(tuple []string, parties []*stage) expectation {
	for i := range e.must {
		e.must[i] = (i < 5 || e.deleted[i]) && !slices.Contains(tuple, "retain") && (i != forgotten || !slices.Contains(tuple, "forget"))
	}
	for i, p := range parties {
		if p.err != nil {
			continue
		}
		switch tuple[i] {
		case "forget":
			e.never[forgotten], e.nowhere = true, true
		case "retain":
			e.never[0], e.never[1], e.never[2], e.never[3] = true, true, true, true
		}
	}
	return e
}

// known reports whether the archive in b was asked this before.
func (x *explorer) known(b *fakeBucket, e expectation, question string) bool {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = fmt.Fprintf(&h, "%+v %s\n", e, question)
	b.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		_, _ = h.WriteString(name)
		if !strings.Contains(name, "merge") && !strings.Contains(name, "batch-") { // those names have a hash
			_, _ = h.Write(drawn.ReplaceAll(b.files[name], nil))
		}
	}
	b.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.seen[h.Sum64()]
	x.seen[h.Sum64()] = true
	return was
}

var seed = maphash.MakeSeed()

// drawn is what a manifest file has of chance.
var drawn = regexp.MustCompile(`"by":"[^"]*"`)

// judge says what is wrong with b.
func (x *explorer) judge(b *fakeBucket, e expectation, when string) error {
	if x.known(b, e, "judge") {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s; files %q", when, fmt.Sprintf(format, args...), slices.Sorted(maps.Keys(b.files)))
	}
	ctx := x.t.Context()
	r := archive.NewReader(b)
	var told [8]int
	for a, err := range r.All(ctx, archive.Span{}) {
		if err != nil {
			return wrong("All: %v", err)
		}
		i := int(a.ExpiredAt - at(noon))
		told[i]++
	}
	total := 0
	for i, n := range told {
		found, err := r.Find(ctx, dead(i, 0).Key, archive.Span{})
		switch {
		case err != nil:
			return wrong("Find: %v", err)
		case len(found) != n:
			return wrong("record %d is told %d times by Find, %d times by All", i, len(found), n)
		case n > 1, e.must[i] && n == 0, e.never[i] && n > 0:
			return wrong("record %d is told %d times; must %t, never %t", i, n, e.must[i], e.never[i])
		}
		total += n
	}
	if _, err := r.Verify(ctx, nil); err != nil {
		return wrong("Verify: %v", err)
	}
	s, err := r.Stats(ctx, archive.Span{})
	if err != nil || e.ended && s.Rows != int64(total) {
		return wrong("%d lives are in %+v, %v", total, s, err)
	}
	if e.nowhere {
		if names := holders(x.t, b, dead(forgotten, 0).Key); len(names) > 0 {
			return wrong("what was forgotten is in %q", names)
		}
	}
	return nil
}

// stage is a bucket for one program of a run. It serialises the program's calls.
type stage struct {
	archive.Bucket
	reads bool // stop before reads too
	lost  bool // see fault

	waits chan bool     // it has stopped (true), or ended
	again chan struct{} // closed to go on
	err   error         // when it has ended

	mu          sync.Mutex
	stop, fault int // calls until then, negative for none; guarded by mu, as are dead and hit
	dead, hit   bool
	committed   bool // the fault hit a manifest file that was made
}

// point is a call, with an effect if do is not nil.
func (s *stage) point(reads bool, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errCrash
	}
	if !reads || s.reads {
		if s.stop == 0 {
			s.waits <- true
			<-s.again
		}
		s.stop--
	}
	if do == nil {
		return nil
	}
	if s.stop >= 0 { // what ends it before it stops is another run: one without a stop
		return do()
	}
	s.fault--
	if s.fault != -1 {
		return do()
	}
	s.hit = true
	if !s.lost {
		s.dead = true
		return errCrash
	}
	if err := do(); err != nil {
		return err
	}
	return errLost
}

func (s *stage) Create(ctx context.Context, write func(io.Writer) (string, error)) error {
	b := s.Bucket.(*fakeBucket)
	var content strings.Builder
	name, err := write(&content)
	if err != nil {
		return err
	}
	err = s.point(false, func() error { return b.set(name, []byte(content.String()), true) })
	s.committed = s.committed || errors.Is(err, errLost) && strings.Contains(name, "_manifest-")
	return err
}

func (s *stage) Put(ctx context.Context, name string, content []byte) error {
	return s.point(false, func() error { return s.Bucket.Put(ctx, name, content) })
}

func (s *stage) Remove(ctx context.Context, name string) error {
	return s.point(false, func() error { return s.Bucket.Remove(ctx, name) })
}

// Rename is that of S3: a copy, which may land when the file has been removed, and a removal.
func (s *stage) Rename(ctx context.Context, from, to string) error {
	b := s.Bucket.(*fakeBucket)
	b.mu.Lock()
	content, ok := b.files[from]
	b.mu.Unlock()
	if !ok {
		return fs.ErrNotExist
	}
	if err := s.point(false, func() error { return b.set(to, content, false) }); err != nil {
		return err
	}
	return s.Remove(ctx, from)
}

func (s *stage) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := s.point(true, nil); err != nil {
		return 0, err
	}
	return s.Bucket.ReadAt(ctx, name, p, off)
}

func (s *stage) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return func(yield func(archive.Info, error) bool) {
		if err := s.point(false, nil); err != nil {
			yield(archive.Info{}, err)
			return
		}
		for i, err := range s.Bucket.List(ctx, prefix) {
			if !yield(i, err) {
				return
			}
		}
	}
}
