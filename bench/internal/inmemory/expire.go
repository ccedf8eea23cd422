package inmemory

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	// readEvery is how far apart the reads of live keys fall due while others expire.
	readEvery = 20 * time.Microsecond
	// calm is how long reads are made before the records die, to know what the
	// machine's own unrest amounts to.
	calm = time.Second
	// patience is how long a store is given to be rid of its dead.
	patience = 10 * time.Second
	// lookEvery is how many reads are made between two looks at what is held.
	lookEvery = 128
)

// expire has a store's records die at one instant while a reader reads live ones, and
// measures how long after they fell due its reads were done: so a read that is held
// up counts for those that queue behind it too. What is held against the store is how
// much longer that is than just before, since the machine delays reads by itself.
func (s *server) expire(t task) (runner.Sample, error) {
	n := t.Keys
	lead, err := s.timeToFill(n)
	if err != nil {
		return nil, err
	}
	empty := heap()
	opened, err := s.open(idleTimeout)
	if err != nil {
		return nil, err
	}
	defer opened.close()
	st, ok := opened.(mortal)
	if !ok {
		return nil, fmt.Errorf("%s cannot be given dying records", s.name)
	}
	live := make([]string, hotKeys)
	for i := range live {
		live[i] = "live-" + strconv.Itoa(i)
		if err := st.put(live[i], valueOf(i)); err != nil {
			return nil, err
		}
	}
	dies := time.Now().Add(lead)
	for i := range n {
		if err := st.putUntil(keyOf(i), valueOf(i), dies); err != nil {
			return nil, err
		}
	}
	full := heap() - empty
	if time.Until(dies) < calm {
		return nil, errors.New("the records expired before all were inserted")
	}
	before := make([]time.Duration, 0, calm/readEvery)
	meanwhile := make([]time.Duration, 0, patience/readEvery)
	time.Sleep(time.Until(dies) - calm)
	due := dies.Add(-calm)
	gone := time.Duration(0)
	for i := 0; gone == 0; i++ {
		for time.Until(due) > 0 {
		}
		if _, ok := st.hit(live[i%hotKeys]); !ok {
			return nil, errors.New("a live record is missing")
		}
		now := time.Now()
		if due.Before(dies) {
			before = append(before, now.Sub(due))
		} else {
			meanwhile = append(meanwhile, now.Sub(due))
			if i%lookEvery == 0 && st.held() == hotKeys {
				gone = now.Sub(dies)
			} else if now.Sub(dies) > patience {
				gone = patience
			}
		}
		due = due.Add(readEvery)
	}
	left := heap() - empty
	left -= float64(cap(before)+cap(meanwhile)) * 8 // ours, not the store's
	p999 := func(d []time.Duration) float64 {
		slices.Sort(d)
		return runner.Quantile(d, 0.999).Seconds() * 1e6
	}
	during, calmly := p999(meanwhile), p999(before)
	sample := runner.Sample{
		"ms-to-gone":      gone.Seconds() * 1e3,
		"µs-p99.9":        during,
		"µs-p99.9-before": calmly,
		"p99.9-vs-before": during / calmly,
		"µs-max":          meanwhile[len(meanwhile)-1].Seconds() * 1e6,
		"%-of-full-heap":  100 * left / full,
		"records-left":    float64(st.held() - hotKeys),
	}
	runtime.KeepAlive(before)
	runtime.KeepAlive(meanwhile)
	return sample, nil
}

// timeToFill estimates with a wide margin how long n inserts and a look at the heap
// take, from some inserts into another store.
func (s *server) timeToFill(n int) (time.Duration, error) {
	st, err := s.open(idleTimeout)
	if err != nil {
		return 0, err
	}
	defer st.close()
	took, err := insert(st, keysOf(n/20))
	return 3*20*took + time.Second/2 + calm, err
}
