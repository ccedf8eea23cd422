package grpcsession

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// Stream is a grpc.StreamServerInterceptor. The session is checked when the stream begins,
// and with Options.Received or Sent again at each message.
func (g *Guard[T]) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	s := &stream[T]{ServerStream: ss, guard: g}
	s.ctx, s.shown = g.load(ss.Context())
	err = errPanicked
	defer func() {
		s.beforeHeader(err)
		err = withStatus(err)
	}()
	if err := g.admit(s.ctx, info.FullMethod); err != nil {
		return err
	}
	if g.opts.Received || g.opts.Sent {
		if err := s.judge(); err != nil {
			return err
		}
	}
	return handler(srv, s)
}

// stream is a call's stream. One goroutine may send while another receives.
type stream[T any] struct {
	grpc.ServerStream
	guard *Guard[T]
	ctx   context.Context
	shown string // the client's token

	header sync.Once
	mu     sync.Mutex // guards had
	had    bool       // there was a session
	user   bool       // and a user
}

func (s *stream[T]) Context() context.Context { return s.ctx }

// judge reads the session again. It returns an error once the session has ended.
func (s *stream[T]) judge() error {
	now, err := s.guard.sessions.Refresh(s.ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.ID == "" && s.had || now.User == "" && s.user { // the handler may have begun an anonymous one since
		return session.ErrEnded
	}
	s.had, s.user = now.ID != "", now.User != ""
	return nil
}

// beforeHeader puts another token that the client is given into the header, or into the trailer of
// a call that has failed or whose handler sent the header by grpc.SendHeader.
func (s *stream[T]) beforeHeader(failed error) {
	s.header.Do(func() {
		md, inTrailer := s.guard.given(s.ctx, s.shown, failed)
		if md != nil && (inTrailer || s.ServerStream.SetHeader(md) != nil) {
			s.ServerStream.SetTrailer(md)
		}
	})
}

func (s *stream[T]) SendHeader(md metadata.MD) error {
	s.beforeHeader(nil)
	return s.ServerStream.SendHeader(md)
}

func (s *stream[T]) SendMsg(m any) error {
	s.beforeHeader(nil)
	if s.guard.opts.Sent {
		if err := s.judge(); err != nil {
			return withStatus(err)
		}
	}
	return s.ServerStream.SendMsg(m)
}

func (s *stream[T]) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.guard.opts.Received {
		return err
	}
	return withStatus(s.judge())
}
