//go:build night

package survey_test

func init() { sampled, samples = 200_000, 100 }
