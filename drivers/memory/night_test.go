//go:build night

package memory

func init() { mostKeys, laps, passing = 100_000, 20, 60_000 }
