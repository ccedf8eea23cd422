// Package grpcsession gives gRPC servers sessions with an idle timeout and an absolute
// timeout. They are the sessions of package
// [github.com/slidingttl/slidingttl/middleware/session]. Its directory is middleware/grpc.
//
//	sessions, err := session.New[Data](d, nil)
//	...
//	guard := grpcsession.New(sessions, &grpcsession.Options{Require: loggedIn})
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(guard.Unary),
//		grpc.StreamInterceptor(guard.Stream),
//	)
//
// A handler uses the session manager with its context, as one of net/http does:
//
//	s, err := sessions.Get(ctx)
//	err = sessions.Login(ctx, session.Login{User: "42"}, nil)
//	err = sessions.Destroy(ctx)
//
// # Tokens
//
// A client sends its token in the metadata "authorization", as "Bearer TOKEN". A call with
// several tokens has no session. A response brings a new token in the header metadata
// "session-token". If that is empty, the client must forget its token. If a call fails, or its
// handler sent the header by grpc.SendHeader, the token is in the trailer. A stream's trailer comes
// at its end: call SendHeader of the stream itself, whose header has the token. With
// Options.RenewEvery a stream that lasts longer than Options.RenewGrace has to, for other calls of its client
// show the former token meanwhile. So a client's retry policy makes
// a call again that logged in or out and then failed. A call that renewed the token and then failed has
// it in the header and is not made again: the next attempt would be given no token.
// The header of a stream is sent
// with the first message: a later call that changes the token fails with
// [session.ErrHeaderSent]. Sessions are the same over net/http with [session.Bearer], and
// are listed with the user's.
//
// # Codes
//
// A handler returns the errors of the session manager as they are. The client gets
//
//   - Unauthenticated where a method needs a user and the call has none, and for
//     session.ErrEnded
//   - NotFound for a session.Manager.Revoke of a session that the user has not
//   - InvalidArgument for a *session.Error that matches slidingttl.ErrInvalid, such as data
//     over Options.MaxData
//   - Unimplemented for a method whose name does not begin with a slash, which no client of
//     gRPC sends
//   - Canceled and DeadlineExceeded for the errors of its context
//   - Internal for session.ErrHeaderSent, session.ErrNoMiddleware and
//     session.ErrData
//   - Unknown for a *session.Error that matches slidingttl.ErrAmbiguous: the write may have landed, and
//     clients make a call again that was Unavailable
//   - Unavailable for any other *session.Error, which says that the store failed
//
// without details. Interceptors outside of these see the error itself by errors.Is and
// errors.As. Any other error passes unchanged: one with a status, and one of the application's own stores.
//
// If a handler ignores the error of a session that could not be read, it answers without a
// session. Options.KeepAlive, Passive and ErrorHandler of the manager are of net/http and
// have no effect here.
package grpcsession
