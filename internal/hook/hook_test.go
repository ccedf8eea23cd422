package hook_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestRunner(t *testing.T) {
	var h hook.Runner
	if h.Call(func() {}) || h.Err() != nil {
		t.Error("a hook that returned counts as one that panicked")
	}
	if !h.Call(func() { panic("first") }) {
		t.Error("a panic was not reported")
	}
	var wg sync.WaitGroup
	for range 9 {
		wg.Go(func() { h.Call(func() { panic("later") }) })
	}
	wg.Wait()
	var p *driver.PanicError
	if err := h.Err(); !errors.As(err, &p) || p.Value != "first" || p.Count != 10 || !strings.Contains(string(p.Stack), "TestRunner") {
		t.Errorf("Err() = %v, want ten panics and the first's stack", err)
	}
	if err := h.Err(); err != nil {
		t.Errorf("told a second time: %v", err)
	}
	h.Call(func() { panic(nil) })
	if err := h.Err(); !errors.As(err, &p) || p.Count != 1 || p.Error() != "hook panicked: "+p.Value.(error).Error() {
		t.Errorf("after a panic(nil): %v", err)
	}
}

func TestTry(t *testing.T) {
	fails := errors.New("fails")
	for name, test := range map[string]struct {
		f    func() error
		want error
	}{
		"returns": {func() error { return nil }, nil},
		"fails":   {func() error { return fails }, fails},
		"exits":   {func() error { runtime.Goexit(); return nil }, hook.ErrExited},
		"panics":  {func() error { panic("here") }, nil},
	} {
		ended := make(chan error, 2)
		var wg sync.WaitGroup
		wg.Go(func() { hook.Try(test.f, func(err error) { ended <- err }) })
		wg.Wait()
		err := <-ended
		var p *driver.PanicError
		if panicked := errors.As(err, &p); panicked != (name == "panics") || !panicked && err != test.want || len(ended) != 0 {
			t.Errorf("f %s: %v, and %d more ends", name, err, len(ended))
		}
		if p != nil && (p.Value != "here" || p.Count != 1 || !strings.Contains(string(p.Stack), "TestTry")) {
			t.Errorf("the panic is told as %v", p)
		}
	}
}
