package cosmos

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	sessionHeader   = "x-ms-session-token"
	containerHeader = "x-ms-content-path" // the container's _rid
)

// sessions keeps the latest session token of each physical partition, by the container that they are of: one
// that is created anew counts anew.
type sessions struct {
	mu              sync.Mutex // guards the rest
	current         *container // nil: no request has been made
	others          map[string]*container
	read            *container // the current one when the client was last made to read its container
	hashesOtherwise bool       // by the last such read: keys' hashes do not tell where their partitions lie
}

// container has the tokens of one container.
type container struct {
	id     string             // of containerOf; empty: unknown
	named  string             // what the last answer called it
	tokens map[string]*string // "id:token" by the id of the partition key range
	joined *string            // all tokens, in a request's form; nil: to be joined
	ranges ranges
}

// mostOthers limits how many containers are remembered that are not the current one.
const mostOthers = 16

// moment is what answers had told when a request was sent. The answer changes what they had told by then, and no
// more: it may come later than one that is newer.
type moment struct {
	*container     // that answered last
	spans      int // how many of its ranges were known
}

// now returns the moment for a request that is about to be sent.
func (s *sessions) now() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked()
}

func (s *sessions) locked() moment {
	if s.current == nil {
		s.current = &container{}
	}
	return moment{s.current, len(s.current.ranges.spans)}
}

// token returns the token for a read of keys with that hash: of their partition, or of all while that, or how the
// current container hashes keys, is not known. Nil, for a read of several partitions: of all. It also returns the
// moment for the read.
func (s *sessions) token(of *hash) (moment, *string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.locked()
	if of != nil && c.container == s.read && !s.hashesOtherwise {
		if part, known := c.ranges.part(of); known {
			return c, c.tokens[part]
		}
	}
	if c.joined == nil && len(c.tokens) > 0 {
		var all []string
		for _, token := range c.tokens {
			all = append(all, *token)
		}
		joined := strings.Join(all, ",")
		c.joined = &joined
	}
	return c, c.joined
}

// unknown reports whether no answer has named the tokens' container.
func (s *sessions) unknown() bool { return s.now().id == "" }

// of sets the tokens' container, if unknown, from its _rid.
func (s *sessions) of(rid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.locked(); c.id == "" && rid != "" {
		s.find(rid, c)
	}
}

// answered takes what a read of the container has told, which was sent then. It reports whether another container
// has answered.
func (s *sessions) answered(p *azcosmos.ContainerProperties, sent moment) (another bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(p.ResourceID, sent)
	if c == s.current {
		s.read, s.hashesOtherwise = c, p.PartitionKeyDefinition.Version < 2
	}
	return sent.id != "" && c.id != sent.id
}

// unread reports whether the client has not been made to read the current container.
func (s *sessions) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked().container != s.read
}

// find returns the container of that _rid, which has answered a request that was sent then. It becomes the
// current one, unless another has meanwhile: an answer that comes late may be of one that was deleted before
// that was created.
func (s *sessions) find(rid string, sent moment) *container {
	is := s.locked().container
	if rid == is.named {
		return is
	}
	id := containerOf(rid)
	switch {
	case len(id) < 8:
		return is
	case id == is.id:
		is.named = rid
		return is
	case is.id == "": // the tokens are taken for its own
		named := *is
		named.id, named.named = id, rid
		s.current = &named
		return s.current
	}
	c := s.others[id]
	if c == nil {
		c = &container{id: id, named: rid}
	}
	delete(s.others, id)
	other := c
	if sent.container == is {
		s.current, other = c, is
	}
	for old := range s.others {
		if len(s.others) < mostOthers {
			break
		}
		delete(s.others, old)
	}
	if s.others == nil {
		s.others = make(map[string]*container)
	}
	s.others[other.id] = other
	return c
}

// containerOf returns the container's part of a _rid: 8 bytes, in base64 with - for /. An item's
// _rid has 8 more.
func containerOf(rid string) string {
	b, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
	return string(b[:min(len(b), 8)])
}

// observe takes the session token from an answer about keys with that hash; nil: of several partitions. The
// request was sent then. It reports whether another container has answered.
func (s *sessions) observe(answer *http.Response, of *hash, sent moment) (another bool) {
	if answer == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.locked().container
	if rid := answer.Header.Get(containerHeader); rid != "" {
		c = s.find(rid, sent)
		another = sent.id != "" && c.id != sent.id
	}
	whole := answer.Header.Get(sessionHeader)
	part, token, ok := strings.Cut(whole, ":")
	if !ok {
		return another
	}
	if of != nil {
		known := sent.spans
		if c != sent.container {
			known = 0
		}
		c.ranges.learn(of, part, known)
	}
	if known := c.tokens[part]; known != nil && (*known == whole || !newer(token, (*known)[len(part)+1:])) {
		return another
	}
	if c.tokens == nil {
		c.tokens = make(map[string]*string)
	}
	kept := whole // whole itself would always be allocated
	c.tokens[part], c.joined = &kept, nil
	return another
}

// learn takes the session token and the cost from an error's answer, as observe.
func (d *Driver[T]) learn(sum *float64, of *hash, sent moment, err error) (another bool) {
	var answer *azcore.ResponseError
	if err == nil || !errors.As(err, &answer) || answer.RawResponse == nil {
		return false
	}
	another = d.sessions.observe(answer.RawResponse, of, sent)
	units, _ := strconv.ParseFloat(answer.RawResponse.Header.Get("x-ms-request-charge"), 32)
	d.stats.charged(sum, float32(units))
	return another
}

// read makes a read with the session's token, of keys with that hash or of several partitions. If no replica has reached the token (404, 1002), it
// waits and retries; azcosmos has asked the write region before that. It also waits for a split
// (410), for which azcosmos only retries four times at once. If all retries fail, it checks whether
// the container was recreated. A container that is not the token's is asked again, with a token of its own.
func read[T, R any](ctx context.Context, d *Driver[T], of *hash, ask func(token *string) (R, *http.Response, error)) (R, error) {
	again := 0
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		sent, token := d.sessions.token(of)
		res, answer, err := ask(token)
		another := d.sessions.observe(answer, of, sent)
		if err != nil {
			another = d.learn(&d.stats.ReadUnits, of, sent, err)
		}
		if !another {
			if !passing(err) {
				return res, err
			}
			if pause <= 100*time.Millisecond {
				if driver.Sleep(ctx, pause) != nil {
					return res, err
				}
				continue
			}
			_, another, _ = d.readContainer(ctx, sent)
		}
		if again++; !another || again == maxSends {
			return res, err
		}
		pause = 10 * time.Millisecond
	}
}

// readContainer reads the container, and reports whether it is another than that of the moment. The read renews what
// azcosmos 1.5.0 keeps of the container by its name, and so which physical partitions ReadManyItems asks: without
// it those of the former container, until one is gone (410).
func (d *Driver[T]) readContainer(ctx context.Context, sent moment) (res azcosmos.ContainerResponse, another bool, err error) {
	res, err = d.client.Read(ctx, nil)
	return res, err == nil && d.sessions.answered(res.ContainerProperties, sent), err
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
