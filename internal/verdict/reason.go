package verdict

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// requestID matches the part that differs between errors with the same cause.
var requestID = regexp.MustCompile(`(?i)(request|activity) ?id: [^,\s]*,? ?`)

// Reason returns err's text, the same for all records with the same problem.
func Reason(err error) string {
	const most = 160
	var bad *driver.InvalidError
	if errors.As(err, &bad) {
		return bad.Field + " " + bad.Rule
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = requestID.ReplaceAllString(text, "")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

const mostProblems = 100

// Count adds b to a. Names above the bound count as "other".
func Count(a, b map[string]int64) map[string]int64 {
	for name, n := range b {
		if a == nil {
			a = make(map[string]int64)
		}
		if _, ok := a[name]; !ok && len(a) >= mostProblems {
			name = "other"
		}
		a[name] += n
	}
	return a
}

// KeyHash returns the first 8 bytes of a key's SHA-256, in hexadecimal, for reports without keys.
// It confirms a guess of the key, so it protects only keys that cannot be guessed.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
