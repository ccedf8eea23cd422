package survey_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/slidingttl/slidingttl/internal/survey"
)

// BenchmarkFigureAudit goes through a million records in memory: at most a second and 64
// MiB of garbage.
func BenchmarkFigureAudit(b *testing.B) {
	f := open(b)
	for i := range 1_000_000 {
		f.Add(fmt.Sprint("user:", i), -day, 20*day)
	}
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := survey.Audit(b.Context(), f, policy, nil); err != nil {
			b.Fatal(err)
		}
	}
}
