//go:build unix && !solaris && !aix

package archive

import (
	"os"
	"syscall"
)

// tryLock locks f until it is closed, and reports whether it got the lock. If the file system
// has no locks, known is false.
func tryLock(f *os.File) (locked, known bool) {
	switch syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) {
	case nil:
		return true, true
	case syscall.EWOULDBLOCK:
		return false, true
	}
	return false, false
}
