package driver

// Wrapper is a driver around another, for instance one that measures its calls.
//
// Its type has the methods of every capability it knows to wrap; which of them the wrapped
// driver has is only known at run time. So only what As hands out counts. One type for each
// combination would be over a thousand; an Unwrap would go past the wrapper.
type Wrapper interface {
	// Wrapped returns the wrapped driver, and which way a capability goes: one of this
	// package's optional interfaces, told by a nil pointer to it. A nil driver has none,
	// and the wrapper is not its own.
	Wrapped(capability any) (inner any, way Way)
}

// Way is how a Wrapper has a capability.
type Way int

// The ways.
const (
	Through Way = iota // by the wrapper's own methods, if it has them and the wrapped driver the capability
	Past               // the wrapped driver's own, unless it has none
	Always             // by the wrapper's own methods, whatever the wrapped driver has
)

// As returns the capability C of driver d, and whether it has that. C is one of this package's
// optional interfaces. It takes the place of a type assertion.
func As[C any](d any) (c C, ok bool) {
	if w, wraps := d.(Wrapper); wraps {
		inner, way := w.Wrapped((*C)(nil))
		if way != Always {
			if c, ok = As[C](inner); !ok || way == Past {
				return c, ok
			}
		}
	}
	c, ok = d.(C)
	return c, ok
}
