package metrics

import (
	"iter"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Stores are the stores of an exporter, each under a unique name. The zero Stores is empty
// and ready for use. It is safe for concurrent use.
type Stores struct {
	mu       sync.Mutex // guards all below
	observed map[string]bool
	added    map[string]Store
	archives map[string]archive
	policies map[string]Followed
}

type archive struct {
	Archived
	added time.Time
}

// Observe reserves a name for an observer. If the name is taken, the error is a
// *driver.InvalidError.
func (s *Stores) Observe(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := check(name, s.observed[name], "observer"); err != nil {
		return err
	}
	if s.observed == nil {
		s.observed = make(map[string]bool)
	}
	s.observed[name] = true
	return nil
}

// Add adds a store under a name. If the name is taken, the error is a *driver.InvalidError.
func (s *Stores) Add(name string, store Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := check(name, s.added[name] != nil, "store"); err != nil {
		return err
	}
	if store == nil {
		return &driver.InvalidError{Field: "store " + strconv.Quote(name), Value: "nil", Rule: "is required"}
	}
	if s.added == nil {
		s.added = make(map[string]Store)
	}
	s.added[name] = store
	return nil
}

// AddArchive takes a store's name for where its dead go. One that is taken is a
// *driver.InvalidError.
func (s *Stores) AddArchive(name string, a Archived) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, taken := s.archives[name]
	if err := check(name, taken, "archive"); err != nil {
		return err
	}
	if a == nil {
		return &driver.InvalidError{Field: "archive " + strconv.Quote(name), Value: "nil", Rule: "is required"}
	}
	if s.archives == nil {
		s.archives = make(map[string]archive)
	}
	s.archives[name] = archive{a, time.Now()}
	return nil
}

// AddPolicies takes a store's name for the file that its policy is from. One that is taken is a
// *driver.InvalidError.
func (s *Stores) AddPolicies(name string, f Followed) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := check(name, s.policies[name] != nil, "file of policies"); err != nil {
		return err
	}
	if f == nil {
		return &driver.InvalidError{Field: "file of policies " + strconv.Quote(name), Value: "nil", Rule: "is required"}
	}
	if s.policies == nil {
		s.policies = make(map[string]Followed)
	}
	s.policies[name] = f
	return nil
}

func check(name string, taken bool, what string) error {
	switch {
	case name == "":
		return &driver.InvalidError{Field: "name of " + what, Value: "empty", Rule: "must have at least one byte"}
	case !utf8.ValidString(name):
		return &driver.InvalidError{Field: "name of " + what, Value: strconv.Quote(name), Rule: "must be UTF-8"}
	case taken:
		return &driver.InvalidError{Field: "name of " + what, Value: strconv.Quote(name), Rule: "must be given to one " + what + " only"}
	}
	return nil
}

// Read yields each series of counters and gauges, with its value and the name of its store.
func (s *Stores) Read() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		all := Metrics()
		send := func(name string, r reading, of source) bool {
			for i, m := range all {
				for _, series := range m.series {
					if m.source == of && !yield(name, Value{i, series.Value, series.Read(r)}) {
						return false
					}
				}
			}
			return true
		}
		for name, store := range s.added {
			if !send(name, reading{Stats: store.Stats(), Now: store.Now()}, ofStore) {
				return
			}
		}
		for name, a := range s.archives {
			r := reading{Buried: a.Stats()}
			since := r.Buried.Through
			if since.IsZero() {
				since = a.added
			}
			r.Lag = max(0, time.Since(since))
			if !send(name, r, ofArchive) {
				return
			}
		}
		for name, f := range s.policies {
			var r reading
			r.Reloaded, r.Accepted = f.LastReload()
			if !send(name, r, ofPolicies) {
				return
			}
		}
	}
}

// Value is that of a series.
type Value struct {
	Metric int    // its place in Metrics
	Label  string // of Metric.Label
	Is     float64
}
