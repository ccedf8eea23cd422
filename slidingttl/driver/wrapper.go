package driver

// Wrapper is a driver around another, for instance one that measures its calls. Its
// type has the methods of every capability it knows to wrap, or types beside it have
// them; which of them the wrapped driver has is only known at run time. So of a
// Wrapper only what As hands out counts, whatever other methods it has.
//
// One type a combination, as wrappers of http.ResponseWriter used to have, would be
// over a thousand; an Unwrap, as they have now, would go past the wrapper.
type Wrapper interface {
	// As sets target, a pointer to one of this package's optional interfaces, to
	// the wrapped driver's capability by way of the wrapper, and reports whether
	// the wrapped driver has it.
	As(target any) bool
}

// As returns the capability C, one of this package's optional interfaces, of driver d,
// and whether it has that. It is to be used in place of a type assertion.
func As[C any](d any) (c C, ok bool) {
	if w, wraps := d.(Wrapper); wraps {
		if ok = w.As(&c); !ok {
			var none C
			return none, false
		}
		return c, true
	}
	c, ok = d.(C)
	return c, ok
}
