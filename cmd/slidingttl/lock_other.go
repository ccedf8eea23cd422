//go:build !unix

package main

import "os"

var pauseSignals []os.Signal

// lockFile does nothing: this system has no flock.
func lockFile(*os.File) error { return nil }
