package inmemory

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// task is what a contestant's process is asked to do.
type task struct {
	Kind       string // a key of kinds
	Keys       int
	Workload   string // uniform or zipf
	Goroutines int
	For        time.Duration
}

func (t task) name() string { return fmt.Sprintf("%s/%s/%d", t.Kind, t.Workload, t.Goroutines) }

// server does the tasks in a contestant's process.
type server struct {
	field
	filled  map[int]store // by number of keys
	streams map[string]stream
}

const idleTimeout = 30 * time.Minute

func contestant(f field) runner.Contestant {
	return runner.Serving(f.name, func() (func(task) (runner.Sample, error), error) {
		s := &server{f, make(map[int]store), make(map[string]stream)}
		kinds := map[string]func(task) (runner.Sample, error){
			"slides": s.slides,
			"grow":   s.grow,
			"fill":   s.fill,
			"hit":    s.hit,
			"expire": s.expire,
		}
		return func(t task) (runner.Sample, error) {
			do, ok := kinds[t.Kind]
			if !ok {
				return nil, fmt.Errorf("no task %q", t.Kind)
			}
			return do(t)
		}, nil
	})
}

// slides proves that reads keep a record alive, and nothing else does.
func (s *server) slides(task) (runner.Sample, error) {
	const idle = 2 * time.Second
	st, err := s.open(idle)
	if err != nil {
		return nil, err
	}
	defer st.close()
	want := valueOf(7)
	for _, key := range []string{"read", "never read"} {
		if err := st.put(key, want); err != nil {
			return nil, err
		}
	}
	if w, ok := st.(settler); ok {
		w.settle()
	}
	for range 2 {
		time.Sleep(idle * 6 / 10)
		if v, ok := st.hit("read"); !ok || v != want {
			return nil, errors.New("a read did not keep its record alive")
		}
	}
	if _, ok := st.hit("never read"); ok {
		return nil, errors.New("a record outlived its idle timeout")
	}
	time.Sleep(idle * 13 / 10)
	if _, ok := st.hit("read"); ok {
		return nil, errors.New("a record outlived the idle timeout after its last read")
	}
	return runner.Sample{}, nil
}

// heap returns the bytes that are alive.
func heap() float64 {
	runtime.GC()
	runtime.GC() // finishes what the first had to leave: finalizers, pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// insert writes the records of keys and returns how long it took.
func insert(st store, keys []string) (time.Duration, error) {
	began := time.Now()
	for i, k := range keys {
		if err := st.put(k, valueOf(i)); err != nil {
			return 0, err
		}
	}
	if w, ok := st.(settler); ok {
		w.settle()
	}
	return time.Since(began), nil
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = keyOf(i)
	}
	return keys
}

// grow fills an empty store and measures time and memory. The keys are strings of
// their own, so that each contestant has to account for what it keeps of them.
func (s *server) grow(t task) (runner.Sample, error) {
	empty := heap()
	st, err := s.open(idleTimeout)
	if err != nil {
		return nil, err
	}
	defer st.close()
	keys := keysOf(t.Keys)
	runtime.GC()
	took, err := insert(st, keys)
	if err != nil {
		return nil, err
	}
	first, last := keys[0], keys[len(keys)-1]
	keys = nil
	full := heap()
	for _, k := range []string{first, last} {
		if _, ok := st.hit(k); !ok {
			return nil, errors.New("an inserted key is missing")
		}
	}
	return runner.Sample{
		"ns":    float64(took.Nanoseconds()) / float64(t.Keys),
		"bytes": (full - empty) / float64(t.Keys),
	}, nil
}

// fill makes ready for hits of this many keys.
func (s *server) fill(t task) (runner.Sample, error) {
	st, err := s.open(idleTimeout)
	if err != nil {
		return nil, err
	}
	_, err = insert(st, keysOf(t.Keys))
	s.filled[t.Keys] = st
	return nil, err
}

func (t task) stream() string { return fmt.Sprintf("%s of %d", t.Workload, t.Keys) }

// hit reads and slides for a while.
func (s *server) hit(t task) (runner.Sample, error) {
	st := s.filled[t.Keys]
	if st == nil {
		return nil, errors.New("not filled")
	}
	reads, ok := s.streams[t.stream()]
	if !ok {
		reads = newStream(t.Workload, t.Keys)
		s.streams[t.stream()] = reads
		runtime.GC()
	}
	if _, _, err := run(st, reads, t.Goroutines, t.For/8); err != nil { // wakes caches and clocks
		return nil, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	busy := cpu()
	n, took, err := run(st, reads, t.Goroutines, t.For)
	busy = cpu() - busy
	runtime.ReadMemStats(&after)
	return runner.Sample{
		"ns":     float64(took.Nanoseconds()) / float64(n),
		"cpu-ns": float64(busy.Nanoseconds()) / float64(n),
		"allocs": float64(after.Mallocs-before.Mallocs) / float64(n),
	}, err
}

// cpu returns the processor time that this process has taken, in all its threads.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for a wrong argument only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sink keeps the values that were read from being optimised away.
var sink atomic.Uint64

// run reads from some goroutines at once until the time is up.
func run(st store, reads stream, goroutines int, length time.Duration) (n int64, took time.Duration, err error) {
	const batch = 512
	var total, missed atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for g := range goroutines {
		group.Go(func() {
			var done, miss int64
			var sum uint64
			at := streamLen/goroutines*g + int(began.UnixNano()%streamLen)
			for done == 0 || time.Since(began) < length {
				for range batch {
					v, ok := st.hit(reads.key(at))
					if !ok {
						miss++
					}
					sum += uint64(v[at%len(v)])
					at++
				}
				done += batch
			}
			total.Add(done)
			missed.Add(miss)
			sink.Add(sum)
		})
	}
	group.Wait()
	took = time.Since(began)
	if m := missed.Load(); m > 0 {
		return 0, 0, fmt.Errorf("%d of %d reads found nothing", m, total.Load())
	}
	return total.Load(), took, nil
}
