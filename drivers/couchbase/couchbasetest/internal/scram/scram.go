// Package scram is the server's side of a login by RFC 5802, as Couchbase offers it:
// SCRAM-SHA1, SCRAM-SHA256 and SCRAM-SHA512, without channel binding.
package scram

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// iterations is how often a password is hashed. The client has to do the
// same for each connection, so it is kept far below what a server that guards
// anything would use.
const iterations = 64

// Keys are the keys to one password, per mechanism. They are safe for concurrent use.
type Keys map[string]*mechanism

type mechanism struct {
	hash func() hash.Hash
	salt []byte
	keys func() (stored, server []byte) // made when first needed
}

// NewKeys returns the keys to password.
func NewKeys(password string) Keys {
	keys := Keys{}
	for name, h := range map[string]func() hash.Hash{
		"SCRAM-SHA1": sha1.New, "SCRAM-SHA256": sha256.New, "SCRAM-SHA512": sha512.New,
	} {
		salt := []byte(rand.Text())
		keys[name] = &mechanism{hash: h, salt: salt, keys: sync.OnceValues(func() (stored, server []byte) {
			salted, err := pbkdf2.Key(h, password, salt, iterations, h().Size())
			if err != nil {
				return nil, nil // only in FIPS mode; no proof verifies then
			}
			sum := h()
			sum.Write(sign(h, salted, "Client Key"))
			return sum.Sum(nil), sign(h, salted, "Server Key")
		})}
	}
	return keys
}

func sign(h func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(h, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Exchange is a login between its two steps.
type Exchange struct {
	Mechanism string
	Username  string // not checked yet

	nonce string
	auth  string // AuthMessage so far: client-first-bare and server-first
	m     *mechanism
}

var unescapeName = strings.NewReplacer("=2C", ",", "=3D", "=")

// Begin reads the client's first message and returns the server's. The user is not
// checked before the end, so that the answer does not tell whether it exists.
func (k Keys) Begin(mechanism string, first []byte) (*Exchange, []byte, error) {
	m := k[mechanism]
	if m == nil {
		return nil, nil, errors.New("unknown mechanism")
	}
	bare, ok := strings.CutPrefix(string(first), "n,,")
	if !ok {
		return nil, nil, errors.New("channel binding is not supported")
	}
	fields := strings.Split(bare, ",")
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "n=") || !strings.HasPrefix(fields[1], "r=") || len(fields[1]) == 2 {
		return nil, nil, errors.New("malformed first message")
	}
	x := &Exchange{
		Mechanism: mechanism,
		Username:  unescapeName.Replace(fields[0][2:]),
		nonce:     fields[1][2:] + rand.Text(),
		m:         m,
	}
	challenge := fmt.Sprintf("r=%s,s=%s,i=%d", x.nonce, base64.StdEncoding.EncodeToString(m.salt), iterations)
	x.auth = bare + "," + challenge
	return x, []byte(challenge), nil
}

// Finish checks the client's proof and returns the server's.
func (x *Exchange) Finish(final []byte) (signature []byte, ok bool) {
	i := bytes.LastIndex(final, []byte(",p="))
	if i < 0 {
		return nil, false
	}
	bare := string(final[:i])
	proof, err := base64.StdEncoding.DecodeString(string(final[i+3:]))
	if err != nil || bare != "c=biws,r="+x.nonce {
		return nil, false
	}
	stored, server := x.m.keys()
	auth := x.auth + "," + bare
	clientKey := sign(x.m.hash, stored, auth)
	if len(proof) != len(clientKey) {
		return nil, false
	}
	for i := range clientKey {
		clientKey[i] ^= proof[i]
	}
	sum := x.m.hash()
	sum.Write(clientKey)
	if !hmac.Equal(sum.Sum(nil), stored) {
		return nil, false
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(sign(x.m.hash, server, auth))), true
}
