package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
)

const (
	handleLen = 16 // bytes of a token that find the record; they never change
	secretLen = 32 // bytes that prove the right to it; Renew changes them

	tokenLen = (handleLen + secretLen) * 4 / 3 // characters

	idLen = 18 // bytes of the handle's hash that make the ID

	sessionKey = "s:" // between the prefix and an ID
	indexKey   = "u:" // between the prefix and the hash of a user
)

// token is what the cookie holds: a handle, then a secret.
type token [handleLen + secretLen]byte

var alphabet = base64.RawURLEncoding.Strict()

func newToken() (t token) {
	_, _ = rand.Read(t[:]) // never fails
	return t
}

// renewed returns a token for the same record.
func (t token) renewed() token {
	_, _ = rand.Read(t[handleLen:])
	return t
}

// parseToken accepts only what String returns.
func parseToken(s string) (t token, ok bool) {
	if len(s) != tokenLen {
		return t, false
	}
	var buf [tokenLen]byte
	copy(buf[:], s)
	n, err := alphabet.Decode(t[:], buf[:])
	return t, err == nil && n == len(t)
}

func (t *token) String() string { return alphabet.EncodeToString(t[:]) }

// key is where the store has the session. Its last characters are the ID.
func (t *token) key(prefix string) string {
	h := sha256.Sum256(t[:handleLen])
	b := make([]byte, 0, 96)
	b = append(append(b, prefix...), sessionKey...)
	return string(alphabet.AppendEncode(b, h[:idLen]))
}

// idOf returns the ID at the end of a session's key.
func idOf(key string) string { return key[len(key)-idLen*4/3:] }

// hash is what the record keeps of the secret.
func (t *token) hash() []byte {
	h := sha256.Sum256(t[handleLen:])
	return h[:]
}

// veil masks other by t, and unmasks it by the same t.
func (t *token) veil(other []byte) (b token) {
	pad := sha512.Sum384(append([]byte("heir"), t[handleLen:]...))
	subtle.XORBytes(b[:], other, pad[:])
	return b
}

func sameHash(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
