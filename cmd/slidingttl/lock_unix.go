//go:build unix

package main

import (
	"os"
	"syscall"
)

// pauseSignals pause an operation, or go on with it.
var pauseSignals = []os.Signal{syscall.SIGUSR1}

// lockFile locks f until it is closed, or returns an error if another process has it locked.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
