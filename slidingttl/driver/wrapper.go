package driver

// Wrapper is a driver around another, for instance one that measures its calls.
//
// Its type has the methods of all capabilities that it can wrap, but only the wrapped driver
// decides at run time which of them exist. So use As, never a type assertion. One type for each
// combination would be over a thousand types, and an Unwrap method would bypass the wrapper.
type Wrapper interface {
	// Wrapped returns the wrapped driver, and the Way of a capability, given as a nil pointer to
	// one of this package's optional interfaces. A nil inner means that the capability is absent,
	// even if the wrapper has its methods.
	Wrapped(capability any) (inner any, way Way)
}

// Way is how a Wrapper offers a capability.
type Way int

// The ways.
const (
	Through Way = iota // the wrapper's methods, if the wrapped driver has the capability
	Past               // the wrapped driver's own methods, if it has the capability
	Always             // the wrapper's methods, whatever the wrapped driver has
)

// As returns the capability C of driver d, and whether d has it. C is one of this package's
// optional interfaces. Use As in place of a type assertion.
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
