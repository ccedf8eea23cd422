//go:build night

package upkeep_test

func init() { sampled, samples = 200_000, 100 }
