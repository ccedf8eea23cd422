package verdict

import (
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The kinds of record. All but Plain live by policies of their own, so an operation that goes by one
// policy would end them too early. The sessions and indexes are those of middleware/session.
const (
	Plain   = "plain"
	Session = "session" // or the mark of one that has ended
	Index   = "index"   // of a user's sessions
)

// KindOf returns the kind of record that key looks like. A key such as "users:" and 24 letters looks
// plain, though a session's prefix may end in a letter too.
func KindOf(key string) string {
	kind := KindOfAny(key)
	if kind == Plain {
		return Plain
	}
	before := strings.TrimRight(key, alphabet)
	before = before[:len(before)-len("s:")]
	if before != "" && strings.ContainsAny(before[len(before)-1:], alphabet[:62]) {
		return Plain
	}
	return kind
}

// alphabet is base64's for URLs.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// KindOfAny is KindOf for any prefix. middleware/session ends its keys so, since its first commit: with
// an ID of 18 bytes, or with the hash of a user.
func KindOfAny(key string) string {
	before := strings.TrimRight(key, alphabet)
	switch n := len(key) - len(before); {
	case n == 24 && strings.HasSuffix(before, "s:"):
		return Session
	case n == 43 && strings.HasSuffix(before, "u:"):
		return Index
	}
	return Plain
}

// Prefix returns what a driver puts before each key in its store, such as the prefix of another program's
// sessions.
func Prefix(d any) string {
	if p, ok := driver.As[interface{ KeyPrefix() string }](d); ok {
		return p.KeyPrefix()
	}
	return ""
}
