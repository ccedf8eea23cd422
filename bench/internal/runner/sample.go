package runner

import (
	"cmp"
	"slices"
)

// Sample is what one task measured, by name of the measure.
type Sample map[string]float64

// Results holds the samples of all rounds.
type Results struct {
	samples map[at][]Sample
}

type at struct{ contestant, task string }

// Add puts one round's sample to the others.
func (r *Results) Add(contestant, task string, s Sample) {
	if r.samples == nil {
		r.samples = make(map[at][]Sample)
	}
	k := at{contestant, task}
	r.samples[k] = append(r.samples[k], s)
}

// All returns a measure in every round.
func (r *Results) All(contestant, task, measure string) []float64 {
	var all []float64
	for _, s := range r.samples[at{contestant, task}] {
		if v, ok := s[measure]; ok {
			all = append(all, v)
		}
	}
	return all
}

// Has reports whether there is such a measure.
func (r *Results) Has(contestant, task, measure string) bool {
	return len(r.All(contestant, task, measure)) > 0
}

// Median returns a measure's median over the rounds.
func (r *Results) Median(contestant, task, measure string) float64 {
	return Median(r.All(contestant, task, measure))
}

// Mean returns a measure's mean over the rounds.
func (r *Results) Mean(contestant, task, measure string) float64 {
	sum, all := 0.0, r.All(contestant, task, measure)
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

// Ratio returns the median over the rounds of a's measure by b's.
func (r *Results) Ratio(a, b, task, measure string) float64 {
	over, under := r.All(a, task, measure), r.All(b, task, measure)
	ratios := make([]float64, min(len(over), len(under)))
	for i := range ratios {
		ratios[i] = over[i] / under[i]
	}
	return Median(ratios)
}

// Median returns the middle of values, or of the two in the middle the mean; zero
// if there are none.
func Median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	return sorted[(len(sorted)-1)/2]
}

// Quantile returns the value below which q of the sorted values lie.
func Quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
