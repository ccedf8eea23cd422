// Package follow measures what an adoption beside live calls lets them wait, by a ceiling set by hand and by
// following the load.
package follow
