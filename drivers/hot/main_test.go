package hot_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key       = "s3ss10n-t0k3n"
	staleness = 30 * time.Second
)

func tier(t testing.TB, d driver.Driver[string], records int) *hot.Driver[string] {
	t.Helper()
	h, err := hot.New(d, hot.Bounds{Records: records, Staleness: staleness}, nil)
	ok(t, "New", err)
	return h
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// reads wants Get to return v, with that number of trips to the store.
func reads(t testing.TB, r *remote[string], h *hot.Driver[string], v string, trips int) {
	t.Helper()
	n := r.during(func() {
		if e, err := h.Get(t.Context(), key); err != nil || e.Value != v {
			t.Errorf("Get: %q, %v; want %q", e.Value, err, v)
		}
	})
	if n != trips {
		t.Errorf("Get made %d trips; want %d", n, trips)
	}
}
