//go:build night

package cosmos

func init() { anyValues = 50_000 }
