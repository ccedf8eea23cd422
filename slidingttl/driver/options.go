package driver

// Given is a copy of what opts points to, the zero options where it is nil.
func Given[O any](opts *O) (o O) {
	if opts != nil {
		o = *opts
	}
	return o
}
