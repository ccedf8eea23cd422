//go:build unix && !race

// The programs of a run take turns, so that the race detector would see nothing and take nine
// times as long.

package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
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
//
// Repair is one of the programs. Where it is, they also work at a day of which a merged file is damaged, and
// the files that it was merged from are still there, and at one of which a batch is damaged, and a merge that did not
// come to count has its lives: what can be read when Repair has returned nil stays.
func TestEveryCrash(t *testing.T) {
	base := state{files: map[string][]byte{}}
	whole := newFake()
	write(t, writer(t, whole), batch(0, 3, 0), batch(3, 4, 0))
	beside := harmedDays(t, mergedAndMore(t, whole), whole)["batch beside leftover"] // its merge has all lives
	archive.Shorten(t, 2, 1)                                                         // so that a day has several merged files
	archive.OneByOne(t)
	b := newFake()
	write(t, writer(t, b), batch(0, 3, 0))
	maps.Copy(base.files, b.files)
	write(t, writer(t, b), batch(3, 4, 0))
	former := b.clone()
	compact(t, b)
	for name := range base.files {
		b.files[name+"?1"] = base.files[name] // another program has kept the file of the first batch
	}
	write(t, writer(t, b), batch(4, 5, 0))
	base.files = b.files
	for _, c := range crashes {
		t.Run(fmt.Sprintf("memory/%d/%t", c.depth, c.reads), func(t *testing.T) {
			all := func(yield func([]string) bool) {
				for tuple := range tuples(c.depth) {
					if (c.depth == 2 || !slices.Contains(tuple, "repair")) && !yield(tuple) {
						return
					}
				}
			}
			everyCrash(t, all, base, func(s *state) place { return &inMemory{c.reads, &fakeBucket{files: maps.Clone(s.files)}} })
		})
	}
	for name, harmed := range map[string]*fakeBucket{"former files": harmedDays(t, b, former)["former files"], "batch beside leftover": beside} {
		for _, c := range crashes {
			t.Run(fmt.Sprintf("harmed/%s/%d/%t", name, c.depth, c.reads), func(t *testing.T) {
				all := func(yield func([]string) bool) {
					for tuple := range tuples(c.depth) {
						if slices.Contains(tuple, "repair") && !yield(tuple) {
							return
						}
					}
				}
				from := state{files: maps.Clone(harmed.files), harmed: true}
				maps.DeleteFunc(from.files, func(name string, _ []byte) bool { return strings.Contains(name, "?") }) // these are there again
				everyCrash(t, all, from, func(s *state) place { return &inMemory{c.reads, &fakeBucket{files: maps.Clone(s.files)}} })
			})
		}
	}
	// A directory has temporary files too, and nothing behind delete markers.
	base.files = maps.Clone(base.files)
	maps.DeleteFunc(base.files, func(name string, _ []byte) bool { return strings.Contains(name, "?") })
	t.Run("directory", func(t *testing.T) {
		root := t.TempDir()
		if in, err := os.MkdirTemp("/dev/shm", ""); err == nil { // in memory
			root = in
			t.Cleanup(func() { _ = os.RemoveAll(in) })
		}
		everyCrash(t, func(yield func([]string) bool) {
			for pair := range tuples(2) {
				if (atNight || slices.Contains(pair, "forget")) && !yield(pair) {
					return
				}
			}
		}, base, func(s *state) place { return newOnDisk(t, root, s) })
	})
}

// mergedAndMore returns a compacted copy of b with one more batch.
func mergedAndMore(t *testing.T, b *fakeBucket) *fakeBucket {
	b = b.clone()
	compact(t, b)
	write(t, writer(t, b), batch(4, 5, 0))
	return b
}

func everyCrash(t *testing.T, all iter.Seq[[]string], base state, open func(*state) place) {
	x := &explorer{t: t, open: open, ids: map[uint64]int{}, contents: map[string][]byte{}, played: map[play]played{}, sets: map[suffix]outcomes{}, asked: map[question]bool{}, holds: map[string]bool{}, harmed: base.harmed}
	from := x.intern(&base)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for tuple := range all {
		g.Go(func() error {
			defer func() {
				if len(tuple) > 2 {
					t.Logf("%q is explored", tuple)
				}
			}()
			return x.explore(tuple, from)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ways to an end, %d runs, %d archives, %d questions", x.ways, len(x.played), len(x.states), len(x.asked))
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
		_, err := archive.Retain(ctx, b, 1, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
		return err
	},
	"repair": func(ctx context.Context, b archive.Bucket, s *source) error {
		_, err := archive.Repair(ctx, b, &archive.Walk{Apply: true})
		if m, ok := b.(*staged); ok && err == nil {
			for a, err := range archive.NewReader(m.fakeBucket).All(ctx, archive.Span{}) {
				if err == nil {
					s.deleted[int(a.ExpiredAt-driver.Floor(noon))] = true // as if: it must stay
				}
			}
		}
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
	if err := hand(ctx, w, batch(from, to, 0)); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		s.deleted[i] = true
	}
	return nil
}

// state is an archive, and what its source has deleted.
type state struct {
	files map[string][]byte
	source
	harmed bool
}

// hash returns what tells s from other states. What is of chance does not.
func (s *state) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = fmt.Fprintf(&h, "%v\n", s.deleted)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		_, _ = h.WriteString(name + "\n")
		if !hashed(name) {
			_, _ = h.Write(undrawn(s.files[name]))
		}
	}
	return h.Sum64()
}

var seed = maphash.MakeSeed()

// hashed reports whether a file's name has the hash of its content.
func hashed(name string) bool {
	return strings.Contains(name, "merge") || strings.Contains(name, "batch-") || strings.Contains(name, writing)
}

// drawn is what a manifest file has of chance.
var drawn = regexp.MustCompile(`"by":"[^"]*","sum":"[^"]*"`)

func undrawn(content []byte) []byte { return drawn.ReplaceAll(content, nil) }

// place is an archive at which a program runs. It can be read and changed while the program stands still.
type place interface {
	bucket(*stage) (archive.Bucket, error) // for a program that begins
	reader() (archive.Bucket, error)
	content() map[string][]byte
	replace(map[string][]byte)
	close()
}

// explorer runs tuples of programs in all ways. A program that finds the same does the same, so no run is
// made twice. One that stops is begun anew, and finds at its stop what the others left.
type explorer struct {
	t      *testing.T
	open   func(*state) place
	harmed bool // until Repair has run, what reads may say that the day is corrupt

	mu       sync.Mutex
	states   []*state // guarded by mu, as are the rest
	ids      map[uint64]int
	contents map[string][]byte
	played   map[play]played
	sets     map[suffix]outcomes
	asked    map[question]bool
	holds    map[string]bool
	ways     int
}

// intern returns the number of a state.
func (x *explorer) intern(s *state) int {
	h := s.hash()
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok := x.ids[h]
	if !ok {
		for name, content := range s.files { // many states have the same files
			if was, ok := x.contents[name]; ok && hashed(name) {
				s.files[name] = was
			} else {
				x.contents[name] = content
			}
		}
		id = len(x.states)
		x.ids[h], x.states = id, append(x.states, s)
	}
	return id
}

func (x *explorer) state(id int) *state {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.states[id]
}

// fault is what happens to a program at a change that it makes.
type fault struct {
	at   int  // the number of the change; negative: nothing happens
	lost bool // the change is made and the program told that it failed; else the program is ended before it
}

// play is a run of a program.
type play struct {
	name  string
	from  int // the state
	stop  int // the call before which it stops; negative: none
	then  int // the state in which it goes on; negative: it does not
	fault fault
}

// played is what came of it.
type played struct {
	state        int
	stopped, hit bool  // whether it came to its stop, and to its fault
	changes      int   // before the stop
	err          error // when it has ended
}

// run plays p, unless it was played before.
func (x *explorer) run(p play) (o played, err error) {
	x.mu.Lock()
	o, ok := x.played[p]
	x.mu.Unlock()
	if ok {
		return o, nil
	}
	from := x.state(p.from)
	at := x.open(from)
	defer at.close()
	src := from.source
	s := &stage{stop: p.stop, fault: p.fault}
	s.stopped = func() {
		o.stopped, o.changes = true, s.changes
		if p.then < 0 {
			o.state, o.hit, s.dead = x.intern(&state{files: at.content(), source: src}), s.hit, true
			return
		}
		then := x.state(p.then)
		at.replace(then.files)
		for i, deleted := range then.deleted {
			src.deleted[i] = src.deleted[i] || deleted
		}
	}
	b, err := at.bucket(s)
	if err != nil {
		return o, err
	}
	err = programs[p.name](x.t.Context(), b, &src)
	if !o.stopped || p.then >= 0 {
		files := at.content()
		o.state, o.hit, o.err = x.intern(&state{files: files, source: src}), s.hit, err
		// An operation recognises its own commit, unless one that ran before it could look has removed the manifest file.
		_, committed := files[s.committed]
		committed = committed || s.committed != "" && p.then < 0
		if err != nil && (!s.hit || committed) && !(x.harmed && (errors.Is(err, archive.ErrCorrupt) || errors.Is(err, archive.ErrLeft))) {
			return o, fmt.Errorf("%+v: %w", p, err)
		}
	}
	if p.then >= 0 && !o.stopped {
		return o, fmt.Errorf("%+v: it did not come to its stop again", p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.played[p] = o
	return o, nil
}

// faults yields p, and p with each fault of a change from the given one on; calm: p alone.
func (x *explorer) faults(p play, from int, calm bool) iter.Seq2[play, played] {
	return func(yield func(play, played) bool) {
		try := func() (hit, more bool) {
			o, err := x.run(p)
			if err != nil {
				o.err, o.state = err, -1
			}
			hit = o.hit || p.fault.at < 0
			return hit, !hit || yield(p, o)
		}
		if _, more := try(); !more || calm {
			return
		}
		for _, lost := range []bool{false, true} {
			for at, hit := from, true; hit; at++ {
				p.fault = fault{at, lost}
				var more bool
				if hit, more = try(); !more {
					return
				}
			}
		}
	}
}

// outcome is an end of several programs that ran within one another.
type outcome struct {
	state int
	well  [3]bool // by program: it returned nil
	ends  [3]int  // by program: how many ended before it
	hit   int     // the program that a fault hit; negative: none
}

// outcomes has for each a way to it.
type outcomes map[outcome]string

// add adds what came of p as the first of several programs, of which o is the others' outcome.
func (all outcomes) add(p play, done played, o outcome, how string, others int) {
	end := outcome{state: o.state, hit: -1}
	copy(end.well[1:], o.well[:])
	copy(end.ends[1:], o.ends[:])
	if done.stopped {
		end.state, end.ends[0] = done.state, others
	} else {
		for i := range others {
			end.ends[i+1]++
		}
	}
	switch end.well[0] = done.err == nil; {
	case done.hit:
		end.hit = 0
	case o.hit >= 0:
		end.hit = o.hit + 1
	}
	if _, ok := all[end]; !ok {
		all[end] = strings.TrimSpace(fmt.Sprintf("%s stopped at %d with %+v; %s", p.name, p.stop, p.fault, how))
	}
}

// suffix is programs that run within others.
type suffix struct {
	names string
	aims  aims
	from  int
	calm  bool
}

// outcomes runs programs of these names within one another, in all ways; calm: without a fault.
func (x *explorer) outcomes(tuple []string, of aims, from int, calm bool) (outcomes, error) {
	if len(tuple) == 0 {
		return outcomes{{state: from, hit: -1}: ""}, nil
	}
	key := suffix{strings.Join(tuple, " "), of, from, calm}
	x.mu.Lock()
	all := x.sets[key]
	x.mu.Unlock()
	if all != nil {
		return all, nil
	}
	all = outcomes{}
	rest := tuple[1:]
	// within adds what comes of p, which has stopped or ended with first.
	within := func(p play, first played) error {
		if first.state < 0 {
			return first.err
		}
		inner, err := x.outcomes(rest, of, first.state, calm || first.hit)
		if err != nil {
			return fmt.Errorf("within %+v: %w", p, err)
		}
		for o, how := range inner {
			if len(rest) > 0 {
				if err := x.judge(question{state: o.state, aims: of}); err != nil {
					return fmt.Errorf("within %+v: %s: %w", p, how, err)
				}
			}
			if !first.stopped {
				all.add(p, first, o, how, len(rest))
				continue
			}
			p.then = o.state
			for p, done := range x.faults(p, first.changes, calm || first.hit || o.hit >= 0) {
				if done.state < 0 {
					return fmt.Errorf("%w: %s", done.err, how)
				}
				all.add(p, done, o, how, len(rest))
			}
		}
		return nil
	}
	p := play{name: tuple[0], from: from, stop: -1, then: -1, fault: fault{at: -1}}
	for p, done := range x.faults(p, 0, calm) {
		if err := within(p, done); err != nil {
			return nil, err
		}
	}
	for ; len(rest) > 0; p.fault = (fault{p.fault.at + 1, true}) { // an answer may be lost before the stop
		hit := p.fault.at < 0
		for p.stop = 0; ; p.stop++ {
			first, err := x.run(p)
			if err != nil {
				return nil, err
			}
			if !first.stopped {
				break
			}
			if p.fault.at < 0 || first.hit {
				hit = true
				if err := within(p, first); err != nil {
					return nil, err
				}
			}
		}
		if !hit || calm {
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sets[key] = all
	return all, nil
}

// explore runs programs of these names in all ways, from a state on.
func (x *explorer) explore(tuple []string, from int) error {
	of := aims{forget: slices.Contains(tuple, "forget"), retain: slices.Contains(tuple, "retain")}
	all, err := x.outcomes(tuple, of, from, false)
	if err != nil {
		return fmt.Errorf("%q: %w", tuple, err)
	}
	x.mu.Lock()
	x.ways += len(all)
	x.mu.Unlock()
	for o, how := range all {
		q := question{state: o.state, aims: of}
		for i, name := range tuple {
			switch {
			case x.harmed: // Repair may restore what was forgotten
			case name == "forget" && o.well[i]:
				q.forgot = true
				// What a program that was ended wrote after Forget had returned stays until Forget runs again.
				q.nowhere = q.nowhere || o.hit < 0 || o.ends[o.hit] < o.ends[i]
			case name == "retain" && o.well[i]:
				q.retained = true
			}
		}
		if err := x.judge(q); err != nil {
			return fmt.Errorf("%q: %s: %w", tuple, how, err)
		}
		again := slices.Clone(tuple)
		if x.harmed {
			again = append([]string{"repair"}, again...)
		}
		for _, name := range append(again, "compact") {
			again, err := x.run(play{name: name, from: q.state, stop: -1, then: -1, fault: fault{at: -1}})
			if err != nil {
				return fmt.Errorf("%q: %s: again: %w", tuple, how, err)
			}
			q.state = again.state
		}
		q.forgot, q.nowhere, q.retained, q.ended = of.forget, of.forget, of.retain, true
		if err := x.judge(q); err != nil {
			return fmt.Errorf("%q: %s, and each again: %w", tuple, how, err)
		}
	}
	return nil
}

// aims says what some of the programs are to do, of those that take away.
type aims struct{ forget, retain bool }

// question is what an archive is asked.
type question struct {
	state int
	aims
	forgot, retained bool // who forgets, and retains, has returned nil
	nowhere          bool // what was forgotten is in no file
	ended            bool // all programs have ended and run again
}

// judge says what is wrong with a state.
func (x *explorer) judge(q question) error {
	x.mu.Lock()
	asked := x.asked[q]
	x.asked[q] = true
	x.mu.Unlock()
	if asked {
		return nil
	}
	s := x.state(q.state)
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s; files %q", fmt.Sprintf(format, args...), slices.Sorted(maps.Keys(s.files)))
	}
	ctx := x.t.Context()
	at := x.open(s)
	defer at.close()
	b, err := at.reader()
	if err != nil {
		return err
	}
	r := archive.NewReader(b)
	var told [8]int
	corrupt := func(err error) bool { return x.harmed && !q.ended && errors.Is(err, archive.ErrCorrupt) }
	for a, err := range r.All(ctx, archive.Span{}) {
		if corrupt(err) {
			continue
		}
		if err != nil {
			return wrong("All: %v", err)
		}
		told[int(a.ExpiredAt-driver.Floor(noon))]++
	}
	total := 0
	for i, n := range told {
		must := (i < 5 && (!x.harmed || q.ended) || s.deleted[i]) && !q.retain && (i != forgotten || !q.forget)
		never := q.forgot && i == forgotten || q.retained && i < 4
		found, err := r.Find(ctx, dead(i, 0).Key, archive.Span{})
		switch {
		case corrupt(err):
		case err != nil:
			return wrong("Find: %v", err)
		case len(found) != n:
			return wrong("record %d is told %d times by Find, %d times by All", i, len(found), n)
		case n > 1, must && n == 0, never && n > 0:
			return wrong("record %d is told %d times; must %t, never %t", i, n, must, never)
		}
		total += n
	}
	if _, err := r.Verify(ctx, nil); err != nil && !corrupt(err) {
		return wrong("Verify: %v", err)
	}
	stats, err := r.Stats(ctx, archive.Span{})
	if err != nil && !corrupt(err) || q.ended && stats.Rows != int64(total) {
		return wrong("%d lives are in %+v, %v", total, stats, err)
	}
	for name, content := range s.files {
		if q.nowhere && x.holder(name, content) {
			return wrong("what was forgotten is in %q", name)
		}
	}
	return nil
}

// holder reports whether a file has the record that is forgotten.
func (x *explorer) holder(name string, content []byte) bool {
	x.mu.Lock()
	is, known := x.holds[name]
	x.mu.Unlock()
	if !known || !hashed(name) {
		is = holds(x.t, name, content, dead(forgotten, 0).Key)
		x.mu.Lock()
		x.holds[name] = is
		x.mu.Unlock()
	}
	return is
}

// stage is where a program's calls come by.
type stage struct {
	reads   bool // stop before reads too
	stop    int  // calls until it stops; negative: it does not
	stopped func()
	fault   fault

	mu        sync.Mutex
	changes   int // so far; guarded by mu, as are dead and hit
	dead, hit bool
	committed string // the manifest file that was made when the fault hit it
}

// point is a call, with an effect if do is not nil.
func (s *stage) point(reads bool, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead && (!reads || s.reads) {
		if s.stop == 0 {
			s.stopped()
		}
		s.stop--
	}
	if s.dead {
		return errCrash
	}
	if do == nil {
		return nil
	}
	s.changes++
	if s.changes != s.fault.at+1 {
		return do()
	}
	s.hit = true
	if !s.fault.lost {
		s.dead = true
		return errCrash
	}
	if err := do(); err != nil {
		return err
	}
	return errLost
}

// inMemory is a place in memory.
type inMemory struct {
	reads bool // a program stops before reads too
	b     *fakeBucket
}

func (m *inMemory) bucket(s *stage) (archive.Bucket, error) {
	s.reads = m.reads
	return &staged{m.b, s}, nil
}

func (m *inMemory) reader() (archive.Bucket, error) { return m.b, nil }

func (m *inMemory) content() map[string][]byte {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	return maps.Clone(m.b.files)
}

func (m *inMemory) replace(files map[string][]byte) {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	was := m.b.files
	m.b.files = maps.Clone(files)
	for name, content := range was { // a program knows its own manifest file
		if there, ok := files[name]; ok && !hashed(name) && bytes.Equal(undrawn(there), undrawn(content)) {
			m.b.files[name] = content
		}
	}
}

func (m *inMemory) close() {}

var errLost = errors.New("the answer was lost")

// staged is a bucket whose calls go by a stage.
type staged struct {
	*fakeBucket
	*stage
}

func (s *staged) Create(ctx context.Context, _ string, write func(io.Writer) (string, error)) error {
	var content strings.Builder
	name, err := write(&content)
	if err != nil {
		return err
	}
	err = s.point(false, func() error { return s.set(name, []byte(content.String()), true) })
	if errors.Is(err, errLost) && strings.Contains(name, "_manifest-") {
		s.committed = name
	}
	return err
}

func (s *staged) Put(ctx context.Context, name string, content []byte) error {
	return s.point(false, func() error { return s.fakeBucket.Put(ctx, name, content) })
}

func (s *staged) Remove(ctx context.Context, name string) error {
	return s.point(false, func() error { return s.fakeBucket.Remove(ctx, name) })
}

// Rename is that of S3: a copy, which may land when the file has been removed, and a removal.
func (s *staged) Rename(ctx context.Context, from, to string) error {
	s.fakeBucket.mu.Lock()
	content, ok := s.files[from]
	s.fakeBucket.mu.Unlock()
	if !ok {
		return fs.ErrNotExist
	}
	if err := s.point(false, func() error { return s.set(to, content, false) }); err != nil {
		return err
	}
	return s.Remove(ctx, from)
}

func (s *staged) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := s.point(true, nil); err != nil {
		return 0, err
	}
	return s.fakeBucket.ReadAt(ctx, name, p, off)
}

func (s *staged) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return s.listed(s.fakeBucket.List(ctx, prefix))
}

func (s *staged) Hidden(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return s.listed(s.fakeBucket.Hidden(ctx, prefix))
}

func (s *staged) listed(list iter.Seq2[archive.Info, error]) iter.Seq2[archive.Info, error] {
	return func(yield func(archive.Info, error) bool) {
		if err := s.point(false, nil); err != nil {
			yield(archive.Info{}, err)
			return
		}
		for i, err := range list {
			if !yield(i, err) {
				return
			}
		}
	}
}

// writing is how the names of temporary files begin. In a state their names say whether their process
// lives, and have a hash.
const writing = ".writing-"

// onDisk is a place in a directory. Its calls are those of fsync: a file is written, or a directory has
// changed.
type onDisk struct {
	t       *testing.T
	root    string
	locks   map[string]*os.File // the temporary files of programs that stand still elsewhere
	written string              // another link to the last file written; empty after its directory is synced
}

func newOnDisk(t *testing.T, within string, s *state) *onDisk {
	root, err := os.MkdirTemp(within, "")
	if err != nil {
		t.Error(err)
	}
	d := &onDisk{t: t, root: root, locks: map[string]*os.File{}}
	d.replace(s.files)
	return d
}

func (d *onDisk) bucket(s *stage) (archive.Bucket, error) {
	return archive.OpenWith(d.root, func(f *os.File) error {
		killed := s.dead
		err := s.point(false, func() error { return nil })
		if strings.HasPrefix(filepath.Base(f.Name()), writing) {
			d.written = filepath.Join(filepath.Dir(d.root), "of-"+filepath.Base(d.root)+filepath.Base(f.Name()))
			d.check(os.Link(f.Name(), d.written))
			defer func() {
				if s.dead && !killed { // the temporary file stays
					d.check(os.Rename(d.written, filepath.Join(filepath.Dir(f.Name()), writing+"left")))
				}
			}()
		} else if d.written != "" {
			if s.dead && !killed {
				d.check(os.Rename(d.written, filepath.Join(f.Name(), writing+"left"))) // it has its name, and the former one still
			}
			d.written = ""
		}
		return err
	})
}

func (d *onDisk) check(err error) {
	if err != nil {
		d.t.Error(err)
	}
}

func (d *onDisk) reader() (archive.Bucket, error) { return archive.OpenDirectory(d.root) }

// each calls do with the names of the files, in a state and on the disk, and their contents.
func (d *onDisk) each(do func(name, path string, content []byte)) {
	d.check(filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		content, err := io.ReadAll(f)
		name, _ := filepath.Rel(d.root, path)
		if dir, _, temporary := strings.Cut(name, writing); temporary {
			name = fmt.Sprintf("%s%s%s-%x", dir, writing, life(f), sha256.Sum256(undrawn(content)))
		}
		do(filepath.ToSlash(name), path, content)
		return err
	}))
}

// life says whether the process lives that writes a temporary file.
func life(f *os.File) string {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return "live"
	}
	return "dead"
}

func (d *onDisk) content() map[string][]byte {
	files := map[string][]byte{}
	d.each(func(name, _ string, content []byte) { files[name] = content })
	return files
}

func (d *onDisk) replace(files map[string][]byte) {
	files = maps.Clone(files)
	d.each(func(name, path string, content []byte) {
		if there, ok := files[name]; ok && (hashed(name) || bytes.Equal(undrawn(there), undrawn(content))) {
			delete(files, name) // a program knows its own manifest file
			return
		}
		d.check(os.Remove(path))
	})
	for name, content := range files {
		path := filepath.Join(d.root, filepath.FromSlash(name))
		d.check(os.MkdirAll(filepath.Dir(path), 0o700))
		d.check(os.WriteFile(path, content, 0o600))
		if strings.Contains(name, writing+"live") {
			f, err := os.Open(path)
			d.check(err)
			if life(f) != "dead" {
				d.t.Error("the lock is held")
			}
			d.locks[path] = f
		}
	}
}

func (d *onDisk) close() {
	for _, f := range d.locks {
		d.check(f.Close())
	}
	d.check(os.RemoveAll(d.root))
}
