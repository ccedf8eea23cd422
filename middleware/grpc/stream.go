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
func (g *Guard[T]) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s := &stream[T]{ServerStream: ss, guard: g}
	s.ctx, s.shown = g.load(ss.Context())
	err := g.admit(s.ctx, info.FullMethod)
	if err == nil && (g.opts.Received || g.opts.Sent) {
		err = s.judge()
	}
	if err == nil {
		err = handler(srv, s)
	}
	if failed := s.beforeHeader(err); err == nil {
		err = failed
	}
	return withStatus(err)
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
	if now.ID == "" && s.had {
		return session.ErrEnded
	}
	s.had = now.ID != ""
	return nil
}

// beforeHeader puts another token that the client is given into the header, or into the trailer of
// a call that has failed.
func (s *stream[T]) beforeHeader(failed error) (err error) {
	s.header.Do(func() {
		switch md, inTrailer := s.guard.given(s.ctx, s.shown, failed); {
		case inTrailer:
			s.ServerStream.SetTrailer(md)
		case md != nil:
			err = s.ServerStream.SetHeader(md)
		}
	})
	return err
}

func (s *stream[T]) SendHeader(md metadata.MD) error {
	if err := s.beforeHeader(nil); err != nil {
		return err
	}
	return s.ServerStream.SendHeader(md)
}

func (s *stream[T]) SendMsg(m any) error {
	if err := s.beforeHeader(nil); err != nil {
		return err
	}
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
