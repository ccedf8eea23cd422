//go:build browser

// Package browser shows the examples' pages to tests in headless Chromium, which must be on
// the PATH: narrow and wide, light and dark, and to axe-core.
package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Widths are those of a small phone, a phone and a desktop.
var Widths = []int64{320, 375, 1280}

// Open starts a browser that reaches no other host than this machine, and ends with t.
func Open(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.IgnoreCertErrors,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WindowSize(1100, 900),
	)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("closing the browser: %v", err)
		}
	})
	// The browser lives as long as the context of the first call.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// Look has the browser show pages at this width and in this color scheme.
func Look(t testing.TB, ctx context.Context, width int64, scheme string) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Clean fails for what axe-core, at that path, finds on the page, and for what is wider than it, at
// all widths and in both schemes. With SCREENSHOTS set it leaves pictures there. What
// axe-core sees at 375 pixels is what it sees at 320.
func Clean(t testing.TB, ctx context.Context, axePath, page string) {
	t.Helper()
	axe, err := os.ReadFile(axePath)
	if err != nil {
		t.Fatalf("axe-core, which make npm installs: %v", err)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range Widths {
			name := fmt.Sprintf("%s-%d-%s", page, width, scheme)
			Look(t, ctx, width, scheme)
			if over := run(t, ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`)); over > 0 {
				t.Errorf("%s: %d pixels too wide", name, over)
			}
			if dir := os.Getenv("SCREENSHOTS"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, name+".png"), run(t, ctx, chromedp.FullScreenshot(100)), 0o600); err != nil {
					t.Error(err)
				}
			}
			if width == 375 {
				continue
			}
			if !run(t, ctx, chromedp.Evaluate[bool](`"axe" in window`)) {
				run(t, ctx, chromedp.Evaluate[bool](string(axe)+"; true"))
			}
			found := run(t, ctx, chromedp.Evaluate[[]string](`axe.run({resultTypes: ["violations"]}).then(r =>
				r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html + " " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
			for _, f := range found {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
	Look(t, ctx, 1100, "light")
}

// run runs an action that returns a value.
func run[T any](t testing.TB, ctx context.Context, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
