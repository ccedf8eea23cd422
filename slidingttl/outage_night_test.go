//go:build night

package slidingttl_test

func init() { outageShare, shardRounds = 1, 10 }
