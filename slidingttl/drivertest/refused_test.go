package drivertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestRunRefused(t *testing.T) {
	r := newReference()
	r.down = fmt.Errorf("%w: wrong key", driver.ErrRefused)
	RunRefused(t, r)
	for _, down := range []error{errDown, driver.ErrNotFound, fmt.Errorf("%w: %w", driver.ErrAmbiguous, r.down)} {
		r.down = down
		failures := strings.Join(refused(t.Context(), r), "\n")
		for _, op := range []string{"Get", "Insert", "Replace", "Touch", "Delete", "Upsert", "GetMulti", "Scan", "Raw"} {
			if !strings.Contains(failures, op+": ") {
				t.Errorf("%s that answers %v passes", op, down)
			}
		}
	}
}
