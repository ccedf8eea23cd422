package cosmos

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	sessionHeader   = "x-ms-session-token"
	containerHeader = "x-ms-content-path" // the container's _rid
)

// sessions keeps the latest session token of each physical partition.
type sessions struct {
	container atomic.Pointer[string] // the container of the tokens; nil: unknown
	named     atomic.Pointer[string] // what the last answer called it; nil: none has

	mu     sync.Mutex         // guards the rest
	tokens map[string]*string // "id:token" by the id of the partition key range
	joined *string            // all tokens, in a request's form; nil: to be joined
	ranges ranges
}

// token returns the token for a read of keys with that hash: of their partition, or of all while that
// is not known. Nil, for a read of several partitions: of all.
func (s *sessions) token(of *hash) *string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of != nil {
		if i, found := s.ranges.search(*of); found {
			return s.tokens[s.ranges.known[i].part]
		}
	}
	if s.joined == nil && len(s.tokens) > 0 {
		var all []string
		for _, token := range s.tokens {
			all = append(all, *token)
		}
		joined := strings.Join(all, ",")
		s.joined = &joined
	}
	return s.joined
}

// hashesOtherwise says that keys' hashes tell nothing of where their partitions lie.
func (s *sessions) hashesOtherwise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ranges = ranges{unusable: true}
}

// of sets the tokens' container, if unknown, from its _rid.
func (s *sessions) of(rid string) {
	if rid != "" && s.container.Load() == nil {
		c := containerOf(rid)
		s.container.CompareAndSwap(nil, &c)
	}
}

// movedTo forgets the tokens if they are of another container, because this one refuses reads with
// them. It reports whether it did. While the tokens' container is unknown it takes this one for it.
func (s *sessions) movedTo(rid string) bool {
	c := containerOf(rid)
	if known := s.container.Swap(&c); known == nil || *known == c {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.tokens) > 0
	s.tokens, s.joined, s.ranges = nil, nil, ranges{}
	return had
}

// containerOf returns the container's part of a _rid: 8 bytes, in base64 with - for /. An item's
// _rid has 8 more.
func containerOf(rid string) string {
	b, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
	return string(b[:min(len(b), 8)])
}

// observe takes the session token from an answer about keys with that hash; nil: of several partitions.
func (s *sessions) observe(answer *http.Response, of *hash) {
	if answer == nil {
		return
	}
	whole := answer.Header.Get(sessionHeader)
	part, token, ok := strings.Cut(whole, ":")
	if !ok {
		return
	}
	if rid := answer.Header.Get(containerHeader); rid != "" {
		if named := s.named.Load(); named == nil || *named != rid {
			if len(containerOf(rid)) == 8 {
				s.movedTo(rid) // the tokens of a container that was deleted would be later than its own
			}
			s.named.Store(&rid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if of != nil {
		s.ranges.learn(*of, part)
	}
	if known := s.tokens[part]; known != nil && (*known == whole || !newer(token, (*known)[len(part)+1:])) {
		return
	}
	if s.tokens == nil {
		s.tokens = make(map[string]*string)
	}
	kept := whole // whole itself would always be allocated
	s.tokens[part], s.joined = &kept, nil
}

// learn takes the session token and the cost from an error's answer.
func (d *Driver[T]) learn(sum *float64, of *hash, err error) {
	if err == nil {
		return
	}
	var answer *azcore.ResponseError
	if errors.As(err, &answer) && answer.RawResponse != nil {
		d.sessions.observe(answer.RawResponse, of)
		units, _ := strconv.ParseFloat(answer.RawResponse.Header.Get("x-ms-request-charge"), 32)
		d.stats.charged(sum, float32(units))
	}
}

// read makes a read with the session's token, of keys with that hash or of several partitions. If no replica has reached the token (404, 1002), it
// waits and retries; azcosmos has asked the write region before that. It also waits for a split
// (410), for which azcosmos only retries four times at once. If all retries fail, it checks whether
// the container was recreated.
func read[T, R any](ctx context.Context, d *Driver[T], of *hash, ask func(token *string) (R, error)) (R, error) {
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		res, err := ask(d.sessions.token(of))
		d.learn(&d.stats.ReadUnits, of, err)
		if !passing(err) {
			return res, err
		}
		if pause > 100*time.Millisecond {
			if c, cerr := d.client.Read(ctx, nil); cerr == nil && d.sessions.movedTo(c.ContainerProperties.ResourceID) {
				res, err = ask(nil)
				d.learn(&d.stats.ReadUnits, of, err)
			}
			return res, err
		}
		if driver.Sleep(ctx, pause) != nil {
			return res, err
		}
	}
}

// newer reports whether token is later than known. Both are "version#LSN", with more parts for
// regions; the version grows with failovers.
func newer(token, known string) bool {
	version, lsn := numbers(token)
	knownVersion, knownLSN := numbers(known)
	return version > knownVersion || version == knownVersion && lsn > knownLSN
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
