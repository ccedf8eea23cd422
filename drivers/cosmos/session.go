package cosmos

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

const sessionHeader = "x-ms-session-token"

// sessions keeps the latest session token of each physical partition.
type sessions struct {
	joined atomic.Pointer[string] // all of them, as a request has them; nil: none

	mu     sync.Mutex        // guards tokens, and changes of joined
	tokens map[string]string // by the id of the partition key range
}

// token is what a read sends.
func (s *sessions) token() *string { return s.joined.Load() }

// observe learns from the answer to a request.
func (s *sessions) observe(answer *http.Response) {
	if answer == nil {
		return
	}
	part, token, ok := strings.Cut(answer.Header.Get(sessionHeader), ":")
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.tokens[part]; known == token || !newer(token, known) {
		return
	}
	if s.tokens == nil {
		s.tokens = make(map[string]string)
	}
	s.tokens[part] = token
	var all []string
	for _, part := range slices.Sorted(maps.Keys(s.tokens)) {
		all = append(all, part+":"+s.tokens[part])
	}
	joined := strings.Join(all, ",")
	s.joined.Store(&joined)
}

// failed learns from an error. A container that was made anew knows nothing of the tokens
// of the old one, and refuses all reads with them.
func (s *sessions) failed(err error) {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return
	}
	if answer.StatusCode == http.StatusNotFound && subStatus(answer) == subBehind {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tokens = nil
		s.joined.Store(nil)
		return
	}
	s.observe(answer.RawResponse)
}

// newer reports whether token is of a later state than known: "version#LSN", in which a
// version grows with failovers. Others follow for regions.
func newer(token, known string) bool {
	version, lsn := numbers(token)
	knownVersion, knownLSN := numbers(known)
	return known == "" || version > knownVersion || version == knownVersion && lsn > knownLSN
}

func numbers(token string) (version, lsn int64) {
	parts := strings.Split(token, "#")
	if len(parts) == 1 {
		parts = []string{"-1", token}
	}
	version, _ = strconv.ParseInt(parts[0], 10, 64)
	lsn, _ = strconv.ParseInt(parts[1], 10, 64)
	return version, lsn
}
