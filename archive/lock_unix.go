//go:build unix && !solaris && !aix

package archive

import (
	"os"
	"syscall"
)

// tryLock locks f for as long as it is open, and reports whether nobody else had; known is
// false where the file system has no locks.
func tryLock(f *os.File) (locked, known bool) {
	switch syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) {
	case nil:
		return true, true
	case syscall.EWOULDBLOCK:
		return false, true
	}
	return false, false
}
