package driver

import "fmt"

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
