//go:build linux && night

package main

import (
	"fmt"
	"testing"
)

// TestRawStoreSeeds is TestRawStore at ten other moments.
func TestRawStoreSeeds(t *testing.T) {
	first := rawSeed(t)
	for seed := first; seed < first+10; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { rawStoreMatrix(t, 1000*seed) })
	}
}
