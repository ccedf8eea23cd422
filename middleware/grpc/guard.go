package grpcsession

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidingttl/slidingttl/middleware/session"
)

const (
	requestKey  = "authorization"
	responseKey = "session-token"
)

// Options adjusts a Guard. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Require reports whether a method, as "/package.Service/Method", is only for
	// users who are logged in. A call without one ends with Unauthenticated before its
	// handler. Nil: no method is. Safe for concurrent use.
	Require func(method string) bool

	// Received reads the session again for each message that the client sends on a stream.
	// The message counts as an access, and once the session has ended RecvMsg fails with
	// Unauthenticated. False: the session is checked when the stream begins, and the stream
	// continues after the session's end.
	Received bool

	// Sent is Received for each message that the server sends: SendMsg fails. It
	// counts as an access too. A client that only listens is then not logged out for
	// idleness as long as the server sends.
	Sent bool
}

// Guard gives the calls of a server their sessions. It is safe for concurrent use.
type Guard[T any] struct {
	sessions *session.Manager[T]
	opts     Options
}

// New returns a Guard over sessions, which the caller closes after the server has
// stopped. opts may be nil; it is copied.
func New[T any](sessions *session.Manager[T], opts *Options) *Guard[T] {
	g := &Guard[T]{sessions: sessions}
	if opts != nil {
		g.opts = *opts
	}
	return g
}

// Unary is a grpc.UnaryServerInterceptor. It reads nothing before the handler asks,
// unless the method needs a user.
func (g *Guard[T]) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	ctx, shown := g.load(ctx)
	err = errPanicked
	defer func() {
		md, inTrailer := g.given(ctx, shown, err)
		if md != nil && (inTrailer || grpc.SetHeader(ctx, md) != nil) { // or the handler sent the header
			if failed := grpc.SetTrailer(ctx, md); failed != nil && err == nil {
				err = failed
			}
		}
		err = withStatus(err)
	}()
	if err := g.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// errPanicked is the error of a call that no return has replaced: its client is given its token all
// the same, for an interceptor outside of these may recover the panic and answer.
var errPanicked = errors.New("panicked")

// load returns the context of a call, and the token that its metadata shows.
func (g *Guard[T]) load(ctx context.Context) (_ context.Context, shown string) {
	md, _ := metadata.FromIncomingContext(ctx)
	shown, _ = session.Bearer{}.Token(&http.Request{Header: http.Header{"Authorization": md.Get(requestKey)}})
	return g.sessions.Load(ctx, shown), shown
}

// errPath says that the client sent another path than a client of gRPC does. A server
// before grpc 1.79.3 passes it on, and Options.Require does not know the method by it.
var errPath = status.Error(codes.Unimplemented, "malformed method name")

// admit returns an error if the method needs a user and the call has none.
func (g *Guard[T]) admit(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, "/") {
		return errPath
	}
	if g.opts.Require == nil || !g.opts.Require(method) {
		return nil
	}
	s, err := g.sessions.Get(ctx)
	if err == nil && s.User == "" {
		err = errNoUser
	}
	return err
}

// sameSession is how many characters the tokens of one session have in common: of 16 bytes.
const sameSession = 21

// given returns the metadata with the client's new token; nil: the client keeps the one it
// has. After it no other token can be sent.
//
// A call that fails has it in the trailer, for a client makes no call again whose header has come. A
// renewed token must come in the header: the next attempt shows the former one and is given none.
func (g *Guard[T]) given(ctx context.Context, shown string, failed error) (md metadata.MD, inTrailer bool) {
	token, changed, err := g.sessions.Commit(ctx)
	if err != nil || !changed { // an error says that ctx has not passed load
		return nil, false
	}
	renewed := len(token) > sameSession && strings.HasPrefix(shown, token[:sameSession])
	return metadata.Pairs(responseKey, token), failed != nil && !renewed
}
