package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A run that opened the lock's file before another removed it has no lock, and a link locks what it leads to.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	unlock, err := lock("--report", path)
	if err != nil {
		t.Fatal(err)
	}
	late, err := os.OpenFile(path+".lock", os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if unlock(); named(late) {
		t.Error("the lock's file has its name after unlock")
	}

	link := path + ".link"
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][2]string{{path, link}, {link, path}, {link, link}} {
		unlock, err := lock("--report", names[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock("--report", names[1]); !errors.Is(err, errUsage) {
			t.Errorf("two have a lock, by names %v: %v", names, err)
		}
		unlock()
	}
}

// Four that lock and unlock all the time never have it together.
func TestLockOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	var holders, held atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for held.Load() < 500 {
				unlock, err := lock("--report", path)
				if err != nil {
					runtime.Gosched()
					continue
				}
				if held.Add(1); holders.Add(1) > 1 {
					t.Error("two have the lock")
				}
				runtime.Gosched()
				holders.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
}
