package runner

import "testing"

func TestRatioIsPairedByRound(t *testing.T) {
	var r Results
	// The machine is three times slower in the second round.
	for _, round := range []struct{ a, b float64 }{{10, 20}, {30, 60}, {11, 20}} {
		r.Add("a", "t", Sample{"ns": round.a})
		r.Add("b", "t", Sample{"ns": round.b})
	}
	if got := r.Ratio("a", "b", "t", "ns"); got != 0.5 {
		t.Errorf("Ratio = %v, want 0.5", got)
	}
	if got := r.Median("a", "t", "ns"); got != 11 {
		t.Errorf("Median = %v, want 11", got)
	}
	if r.Has("a", "t", "other") {
		t.Error("Has a measure that was never taken")
	}
}

func TestMedianAndQuantile(t *testing.T) {
	if got := Median([]float64{4, 1, 3}); got != 3 {
		t.Errorf("Median = %v, want 3", got)
	}
	if got := Median([]float64(nil)); got != 0 {
		t.Errorf("Median of none = %v, want 0", got)
	}
	sorted := make([]int, 1000)
	for i := range sorted {
		sorted[i] = i
	}
	if got := Quantile(sorted, 0.999); got != 999 {
		t.Errorf("p99.9 = %v, want 999", got)
	}
	if got := Quantile(sorted[:1], 1); got != 0 {
		t.Errorf("p100 of one = %v, want 0", got)
	}
}

func TestFigureLine(t *testing.T) {
	for _, tt := range []struct {
		f    Figure
		want string
	}{
		{Figure{"m/x", 0.5012, "<=", 0.75}, "figure m/x 0.50 target <= 0.75 ok"},
		{Figure{"m/x", 0.8, "<=", 0.75}, "figure m/x 0.80 target <= 0.75 short"},
		{Figure{"m/y", 0.97, ">=", 0.95}, "figure m/y 0.97 target >= 0.95 ok"},
		{Figure{"m/z", 1234.5, "", 0}, "figure m/z 1234"},
	} {
		if got := tt.f.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
