package touches

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A later save puts back the life that one which goes on has not put back yet, but not once its record was deleted, or saved
// by one that knows it.
func TestCarriedEndsWithItsRecord(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(f *fixture)
		carried bool
	}{
		"nothing":              {func(*fixture) {}, true},
		"another key":          {func(f *fixture) { f.Deleted(t.Context(), "b", f.Deletes("b"), true, false) }, true},
		"deleted":              {func(f *fixture) { f.Deleted(t.Context(), "a", f.Deletes("a"), true, false) }, false},
		"perhaps deleted":      {func(f *fixture) { f.Deleted(t.Context(), "a", f.Deletes("a"), false, false) }, false},
		"saved by a later one": {func(f *fixture) { f.Wrote(t.Context(), "a") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(Config{})
				life := driver.Life{CreatedAt: f.now(), ExpiresAt: f.now().Add(time.Hour)}
				goOn := make(chan struct{})
				f.GoOn(t.Context(), "a", life, f.Memo.Clock(), func(context.Context, func() (bool, error)) (bool, error) {
					<-goOn
					return true, nil
				})
				before := f.Carried("a")
				test.change(f)
				for when, carried := range map[string]func(driver.Meta) driver.Life{"before": before, "after": f.Carried("a")} {
					if l := carried(driver.Meta{Version: 1}); (l == life) != test.carried {
						t.Errorf("asked %s it: %v is carried", when, l)
					}
				}
				close(goOn)
			})
		})
	}
}
