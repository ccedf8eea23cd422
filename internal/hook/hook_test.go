package hook_test

import (
	"errors"
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
