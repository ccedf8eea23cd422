package driver

// Given returns a copy of *opts; the zero options if opts is nil.
func Given[O any](opts *O) (o O) {
	if opts != nil {
		o = *opts
	}
	return o
}
