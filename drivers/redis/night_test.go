//go:build night

package redis_test

func init() { allCases, anyValues = true, 50_000 }
