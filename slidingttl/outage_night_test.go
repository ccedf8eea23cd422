//go:build night

package slidingttl_test

func init() { outageShare = 1 }
