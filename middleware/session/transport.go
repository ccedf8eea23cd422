package session

import (
	"net/http"
	"strings"
	"time"
)

// Transport is how a session's token travels between client and server. The
// Manager's own is its cookie. An implementation is safe for concurrent use.
type Transport interface {
	// Token returns the token in r. shown: r has one, valid or not. If r has several that
	// may differ, return none.
	Token(r *http.Request) (token string, shown bool)

	// Give writes into the response's header that the client must send token from now on,
	// for the time last or, if that is zero, until the client ends. An empty token means
	// that the client must forget its token.
	Give(header http.Header, token string, last time.Duration)

	// Header names the header of requests that Token reads.
	Header() string
}

// Bearer carries tokens for API clients, mobile apps and other clients that are not
// browsers. A request sends its token as "Authorization: Bearer TOKEN". A response brings a
// new token in a header of its own; if that is empty, the client must forget its token. No
// browser sends such a token by itself, so no other site can make a browser send it.
type Bearer struct {
	// Response names the header of responses. Zero: "Session-Token". Pages of another origin may
	// read it (Access-Control-Expose-Headers) if the site's own CORS lets them in; that must
	// allow them the request header Authorization.
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
	header.Add("Access-Control-Expose-Headers", name)
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
		g.last = m.policies.session(r).Cap(now.entry.CreatedAt).Time().Sub(m.store.Now())
	}
	return g
}
