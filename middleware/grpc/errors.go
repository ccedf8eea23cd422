package grpcsession

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// errNoUser says that a method is for users who are logged in.
var errNoUser = errors.New("no user is logged in")

// failure is an error with the status that the client gets, which has no details.
type failure struct {
	error
	code codes.Code
	text string
}

func (f *failure) Unwrap() error              { return f.error }
func (f *failure) GRPCStatus() *status.Status { return status.New(f.code, f.text) }

// withStatus returns err with its status, if it is one of the session manager's.
func withStatus(err error) error {
	var (
		own    *session.Error
		status interface{ GRPCStatus() *status.Status }
	)
	ours := errors.As(err, &own)
	if err == nil || errors.As(err, &status) && !(ours && errors.As(own.Err, &status)) { // the store's own says nothing to a client
		return err
	}
	switch {
	case errors.Is(err, errNoUser):
		return &failure{err, codes.Unauthenticated, "log in first"}
	case errors.Is(err, session.ErrEnded):
		return &failure{err, codes.Unauthenticated, "the session has ended"}
	case ours && errors.Is(err, slidingttl.ErrNotFound):
		return &failure{err, codes.NotFound, "no such session"}
	case ours && errors.Is(err, slidingttl.ErrInvalid):
		return &failure{err, codes.InvalidArgument, "invalid session data"}
	case ours && errors.Is(err, slidingttl.ErrAmbiguous): // clients make a call again that was Unavailable
		return &failure{err, codes.Unknown, "the session may have been written"}
	case ours:
		return &failure{err, codes.Unavailable, "the session cannot be read or written"}
	case errors.Is(err, context.Canceled):
		return &failure{err, codes.Canceled, "canceled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{err, codes.DeadlineExceeded, "deadline exceeded"}
	case errors.Is(err, session.ErrHeaderSent), errors.Is(err, session.ErrNoMiddleware), errors.Is(err, session.ErrData):
		return &failure{err, codes.Internal, "session error"}
	}
	return err
}
