package telemetry

import (
	"strconv"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Stores are the stores of an exporter, each under a unique name. The zero Stores is empty
// and ready for use. It is safe for concurrent use.
type Stores struct {
	mu       sync.Mutex // guards all below
	observed map[string]bool
	added    map[string]Store
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

func check(name string, taken bool, what string) error {
	switch {
	case name == "":
		return &driver.InvalidError{Field: "name of " + what, Value: "empty", Rule: "must have at least one byte"}
	case taken:
		return &driver.InvalidError{Field: "name of " + what, Value: strconv.Quote(name), Rule: "must be given to one " + what + " only"}
	}
	return nil
}

// Read reads all stores that were added.
func (s *Stores) Read() map[string]Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Reading, len(s.added))
	for name, store := range s.added {
		all[name] = Reading{Stats: store.Stats(), Now: store.Now()}
	}
	return all
}
