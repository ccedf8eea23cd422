//go:build !race

package admission

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	grpcsession "github.com/slidingttl/slidingttl/middleware/grpc"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// way is how a client reaches a server.
type way int

const (
	cookie way = iota
	bearer
	both // a bearer token, and a cookie that must not count
	rpc
	ways
)

// server is a manager behind all transports.
type server struct {
	sessions   *session.Manager[Data]
	pages, api http.Handler
	guard      *grpcsession.Guard[Data]
}

func newServer(m *session.Manager[Data]) *server {
	run := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Context().Value(action{}).(func(context.Context))(r.Context())
	})
	return &server{
		sessions: m,
		pages:    m.Middleware(run),
		api:      m.Middleware(m.Over(session.Bearer{})(run)),
		guard:    grpcsession.New(m, nil),
	}
}

type action struct{}

// call makes a request that shows token and, if it goes both ways, other as the cookie. It returns the
// token that the client was given; "-": it is to forget the one it has.
func (s *server) call(ctx context.Context, by way, token, other string, passive bool, f func(ctx context.Context)) (given string) {
	if by == rpc {
		return s.callRPC(ctx, token, f)
	}
	r := &http.Request{Method: "GET", URL: &url.URL{Path: "/"}, Host: "site.example", Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if passive {
		r.Header.Set("Passive", "1")
	}
	if by == both {
		r.Header.Set("Cookie", "__Host-session="+other)
	}
	w := &answer{header: http.Header{}}
	r = r.WithContext(context.WithValue(ctx, action{}, f))
	if by == cookie {
		r.Header.Set("Cookie", "__Host-session="+token)
		s.pages.ServeHTTP(w, r)
		for _, line := range w.header["Set-Cookie"] {
			value, _, _ := strings.Cut(strings.TrimPrefix(line, "__Host-session="), ";")
			given = value
			if value == "" {
				given = "-"
			}
		}
		return given
	}
	r.Header.Set("Authorization", "Bearer "+token)
	s.api.ServeHTTP(w, r)
	return tokenOf(w.header["Session-Token"])
}

func tokenOf(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case values[0] == "":
		return "-"
	}
	return values[0]
}

func (s *server) callRPC(ctx context.Context, token string, f func(ctx context.Context)) string {
	t := &transport{}
	ctx = metadata.NewIncomingContext(grpc.NewContextWithServerTransportStream(ctx, t), metadata.Pairs("authorization", "Bearer "+token))
	_, _ = s.guard.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/site/call"}, func(ctx context.Context, _ any) (any, error) {
		f(ctx)
		return nil, nil
	})
	return tokenOf(t.md.Get("session-token"))
}

// transport is a gRPC call's header.
type transport struct{ md metadata.MD }

func (t *transport) Method() string                  { return "/site/call" }
func (t *transport) SetHeader(md metadata.MD) error  { t.md = metadata.Join(t.md, md); return nil }
func (t *transport) SendHeader(md metadata.MD) error { return t.SetHeader(md) }
func (t *transport) SetTrailer(metadata.MD) error    { return nil }

// answer is a response of which only the header counts.
type answer struct{ header http.Header }

func (w *answer) Header() http.Header         { return w.header }
func (w *answer) Write(b []byte) (int, error) { return len(b), nil }
func (w *answer) WriteHeader(int)             {}
