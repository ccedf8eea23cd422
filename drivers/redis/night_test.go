//go:build night

package redis_test

func init() { allCases = true }
