package driver

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Hooks calls a user's functions, and recovers from their panics.
//
// The zero Hooks is ready for use, and safe for concurrent use.
type Hooks struct {
	mu    sync.Mutex // guards all below
	first *PanicError
	count int
}

// Call runs hook and reports whether it panicked. runtime.Goexit passes.
func (h *Hooks) Call(hook func()) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			panicked = true
			h.mu.Lock()
			defer h.mu.Unlock()
			h.count++
			if h.first == nil {
				h.first = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}
	}()
	hook()
	return false
}

// Err returns a *PanicError if a hook has panicked since the last call. It is for Close.
func (h *Hooks) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		return nil
	}
	err := h.first
	err.Count = h.count
	h.first, h.count = nil, 0
	return err
}

// PanicError says that hooks panicked. The work went on; Close returns the first.
type PanicError struct {
	Value any    // what the first panicked with
	Stack []byte // where
	Count int    // number of panics
}

// Error implements error.
func (e *PanicError) Error() string {
	if e.Count == 1 {
		return fmt.Sprintf("hook panicked: %v", e.Value)
	}
	return fmt.Sprintf("hook panicked %d times, first: %v", e.Count, e.Value)
}
