// Package hook calls the functions that a user has set.
package hook

import (
	"errors"
	"runtime/debug"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Runner calls a user's functions, and recovers from their panics.
//
// The zero Runner is ready for use, and safe for concurrent use.
type Runner struct {
	mu    sync.Mutex // guards all below
	first *driver.PanicError
	count int
}

// Call runs hook and reports whether it panicked. runtime.Goexit passes.
func (h *Runner) Call(hook func()) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			panicked = true
			h.mu.Lock()
			defer h.mu.Unlock()
			h.count++
			if h.first == nil {
				h.first = &driver.PanicError{Value: v, Stack: debug.Stack()}
			}
		}
	}()
	hook()
	return false
}

// Err returns a *driver.PanicError if a hook has panicked since the last call. It is for Close.
func (h *Runner) Err() error {
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

// ErrExited says that a user's function ended the goroutine.
var ErrExited = errors.New("a caller's function ended the goroutine")

// Recover calls f, and returns a panic in it as a *driver.PanicError. runtime.Goexit passes.
func Recover(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &driver.PanicError{Value: v, Stack: debug.Stack(), Count: 1}
		}
	}()
	return f()
}

// Tell calls f, if it is not nil, with err. A panic in f ends there: f is what would be told of it.
func Tell(f func(error), err error) {
	if f != nil {
		_ = Recover(func() error {
			f(err)
			return nil
		})
	}
}

// Try calls f on a goroutine that is not the user's, and then end with its error: a *driver.PanicError if f
// panicked, ErrExited if it ended the goroutine.
func Try(f func() error, end func(error)) {
	err := ErrExited
	defer func() { end(err) }()
	err = Recover(f)
}
