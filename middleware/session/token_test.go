package session

import (
	"bytes"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestHashIsComparedWhole: a part of the hash does not match, neither of the session's token
// nor of a renewed one.
func TestHashIsComparedWhole(t *testing.T) {
	token := newToken()
	whole := token.hash()
	for i := range whole {
		near := bytes.Clone(whole)
		near[i] ^= 1
		for _, h := range [][]byte{near, whole[:i], whole[i+1:], append(bytes.Clone(whole), 0)} {
			r := Record{Token: h, Former: []former{{Token: h, Until: driver.MaxInstant}}}
			if r.accepts(&token, 0) {
				t.Errorf("byte %d: a hash of %d bytes is taken for another", i, len(h))
			}
		}
	}
	r := Record{Former: []former{{Token: whole, Until: 1}}}
	if !r.accepts(&token, 0) || r.accepts(&token, 1) {
		t.Error("a former token is good until its time, and not at it")
	}
}
