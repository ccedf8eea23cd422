//go:build unix

package main

import (
	"os"
	"syscall"
)

// lockFile locks f until it is closed, or returns an error if another process has it locked.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
