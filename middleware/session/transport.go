package session

import (
	"net/http"
	"strings"
	"time"
)

// Transport is how a session's token travels between client and server. The
// Manager's own is its cookie. An implementation is safe for concurrent use.
type Transport interface {
	// Token returns the token that r shows. shown: it shows one, good or not; of
	// several that contradict, or might, none is to be returned.
	Token(r *http.Request) (token string, shown bool)

	// Give has a response with this header tell the client to show token from now
	// on, for as long as last or, if that is zero, until the client ends. An empty
	// token: to forget the one it has.
	Give(header http.Header, token string, last time.Duration)

	// Header names the header of requests that Token reads.
	Header() string
}

// Bearer carries tokens for clients that are no browsers: API clients, mobile apps.
// A request shows its token as "Authorization: Bearer TOKEN"; a response that gives
// out another has it in a header of its own, which is there but empty when the
// client is to forget the one it has. No browser sends such a token by itself, so no
// other site can have it sent.
type Bearer struct {
	// Response names the header of responses. Zero: "Session-Token".
	Response string
}

// Token implements Transport.
func (Bearer) Token(r *http.Request) (token string, shown bool) {
	for _, value := range r.Header["Authorization"] {
		scheme, rest, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		if shown {
			return "", true
		}
		token, shown = strings.Trim(rest, " "), true
	}
	return token, shown
}

// Give implements Transport.
func (b Bearer) Give(header http.Header, token string, _ time.Duration) {
	name := b.Response
	if name == "" {
		name = "Session-Token"
	}
	header.Set(name, token)
}

// Header implements Transport.
func (Bearer) Header() string { return "Authorization" }

// given is the token that a client is given; empty, it is to forget the one it has.
type given struct {
	token string
	last  time.Duration // zero: until the client ends
}

// give returns what the client of the session now is given.
func (m *Manager[T]) give(now *current[T]) *given {
	g := &given{token: now.token.String()}
	if r := now.entry.Value; r.Remember {
		g.last = m.policies.of(r).Cap(now.entry.CreatedAt).Time().Sub(m.store.Now())
	}
	return g
}
