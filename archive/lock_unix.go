//go:build unix && !solaris && !aix

package archive

import (
	"io/fs"
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

// chown gives a file the owner and the group of another one, if the process may.
func chown(path string, own, other fs.FileInfo) {
	is, ok := own.Sys().(*syscall.Stat_t)
	want, known := other.Sys().(*syscall.Stat_t)
	if ok && known && (is.Uid != want.Uid || is.Gid != want.Gid) {
		_ = os.Chown(path, -1, int(want.Gid))
		_ = os.Chown(path, int(want.Uid), -1)
	}
}
