package scsstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// sealed begins what All returns for a session that is to be reached in Options.Former too: its token, which
// Commit and Delete need there, and nobody else may read.
const sealed = "sealed:"

// newSeal returns a seal with a key of its own.
func newSeal() (cipher.AEAD, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it does not fail
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (s *Store) sealToken(token string) string {
	return sealed + base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, []byte(token), nil))
}

// name is what Commit and Delete are given.
type name struct {
	key    string
	token  string // "" if only the key is known
	listed bool   // by All: the session was there, and must not begin anew
}

// named reads a token of scs, or what All has returned in its place: a token of scs has no colon. Find takes
// tokens alone, so that the others open nothing.
func (s *Store) named(given string) (name, error) {
	if isKey(given) {
		return name{key: given, listed: true}, nil
	}
	text, listed := strings.CutPrefix(given, sealed)
	if !listed {
		return name{key: key(given), token: given}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		b, err = s.seal.Open(nil, nil, b, nil)
	}
	if err != nil {
		return name{}, &slidingttl.InvalidError{Field: "token", Value: fmt.Sprintf("%d sealed bytes", len(text)), Rule: "must be of this Store's All"}
	}
	return name{key: key(string(b)), token: string(b), listed: true}, nil
}

// isKey reports whether All made token of a record's key, or what the driver lists is a session.
func isKey(token string) bool { return strings.HasPrefix(token, prefix) }
