package grpcsession_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	grpcsession "github.com/slidingttl/slidingttl/middleware/grpc"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestBehavesLikeHTTP runs clients of both kinds through the same table.
func TestBehavesLikeHTTP(t *testing.T) {
	for _, kind := range []string{"gRPC", "net/http"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t, &grpcsession.Options{Require: mine})
			call := call(s.overGRPC)
			if kind == "net/http" {
				call = s.overHTTP
			}
			var token, former string
			for _, step := range []struct {
				why     string
				op, arg string
				before  func()
				former  bool // sends the former token
				want    answer
			}{
				{why: "nobody", op: "get", want: answer{body: "/0"}},
				{why: "nobody where a user is needed", op: "mine", want: answer{code: codes.Unauthenticated}},
				{why: "an anonymous session", op: "count", want: answer{given: "new"}},
				{why: "it is no user", op: "mine", want: answer{code: codes.Unauthenticated}},
				{why: "a login", op: "login", arg: "ann", want: answer{given: "new"}},
				{why: "the data came along", op: "mine", want: answer{body: "ann/1"}},
				{why: "the token from before the login", op: "get", former: true, want: answer{body: "/0"}},
				{why: "writing with it", op: "count", former: true, want: answer{code: codes.Unauthenticated}},
				{why: "a renewal", op: "renew", want: answer{given: "new"}},
				{why: "the former token within the grace", op: "get", former: true, before: func() { s.advance(9 * time.Second) }, want: answer{body: "ann/1"}},
				{why: "and after it", op: "get", former: true, before: func() { s.advance(time.Second) }, want: answer{body: "/0"}},
				{why: "too much data", op: "count", arg: strings.Repeat("x", 100), want: answer{code: codes.InvalidArgument}},
				{why: "no such session", op: "revoke", arg: "ann", want: answer{code: codes.NotFound}},
				{why: "the store is down", op: "get", before: func() { s.store.down.Store(true) }, want: answer{code: codes.Unavailable}},
				{why: "where a user is needed", op: "mine", want: answer{code: codes.Unavailable}},
				{why: "up again", op: "get", before: func() { s.store.down.Store(false) }, want: answer{body: "ann/1"}},
				{why: "busy", op: "get", before: func() { s.advance(29 * time.Minute) }, want: answer{body: "ann/1"}},
				{why: "idle", op: "mine", before: func() { s.advance(30 * time.Minute) }, want: answer{code: codes.Unauthenticated}},
				{why: "again", op: "login", arg: "ann", want: answer{given: "new"}},
				{why: "busy", op: "get", before: func() { s.advance(29 * time.Minute) }, want: answer{body: "ann/0"}},
				{why: "busy", op: "get", before: func() { s.advance(29 * time.Minute) }, want: answer{body: "ann/0"}},
				{why: "busy", op: "get", before: func() { s.advance(29 * time.Minute) }, want: answer{body: "ann/0"}},
				{why: "busy", op: "get", before: func() { s.advance(29 * time.Minute) }, want: answer{body: "ann/0"}},
				{why: "the absolute timeout", op: "get", before: func() { s.advance(4 * time.Minute) }, want: answer{body: "/0"}},
				{why: "again", op: "login", arg: "ann", want: answer{given: "new"}},
				{why: "logout", op: "logout", want: answer{given: "forget"}},
				{why: "logged out", op: "get", former: true, want: answer{body: "/0"}},
				{why: "again", op: "login", arg: "ann", want: answer{given: "new"}},
				{why: "log out everywhere", op: "everywhere", arg: "ann", want: answer{given: "forget"}},
				{why: "logged out", op: "get", former: true, want: answer{body: "/0"}},
			} {
				if step.before != nil {
					step.before()
				}
				shown := token
				if step.former {
					shown = former
				}
				got := call(step.op, step.arg, shown)
				if got.given != "" {
					former = shown
				}
				switch {
				case got.given == "forget":
					token = ""
				case got.given != "":
					token, got.given = got.given, "new"
				}
				if got != step.want {
					t.Errorf("%s: %+v, want %+v", step.why, got, step.want)
				}
			}
			token = call("login", "ann").given
			for why, shown := range map[string][]string{
				"two tokens": {token, token}, "a token cut short": {token[1:]}, "none": nil, "an empty one": {""},
			} {
				if got := call("get", "", shown...); got.body != "/0" {
					t.Errorf("%s: %+v", why, got)
				}
			}
			if got := call("get", "", token); got.body != "ann/0" {
				t.Errorf("the token itself: %+v", got)
			}
		})
	}
}

// TestErrors: clients get a code and no details; an interceptor outside sees the error.
func TestErrors(t *testing.T) {
	s := newSite(t, &grpcsession.Options{Require: mine})
	own := errors.New("its own")
	for want, tt := range map[codes.Code]struct{ fails, is error }{
		codes.Canceled:         {context.Canceled, context.Canceled},
		codes.DeadlineExceeded: {context.DeadlineExceeded, context.DeadlineExceeded},
		codes.Internal:         {session.ErrHeaderSent, session.ErrHeaderSent},
		codes.Unavailable:      {&session.Error{Err: &slidingttl.Error{Op: "get", Err: own}}, own},
		codes.Aborted:          {status.Error(codes.Aborted, "by the handler"), nil},
		codes.Unknown:          {own, own},
	} {
		s.unary = func(context.Context) (string, error) { return "", tt.fails }
		if got := s.overGRPC("do", ""); got.code != want {
			t.Errorf("%v: %+v, want %v", tt.fails, got, want)
		}
		if seen := *s.seen.Load(); tt.is != nil && !errors.Is(seen, tt.is) {
			t.Errorf("an interceptor saw %v, want %v", seen, tt.is)
		}
	}
	s.unary = func(context.Context) (string, error) { return "", fmt.Errorf("%w: %w", session.ErrData, own) }
	if got := s.overGRPC("do", ""); got.code != codes.Internal {
		t.Errorf("data that does not decode: %+v", got)
	}
}

// TestTokenAfterTheHeader: a handler that sent the header by itself has the token in the
// trailer.
func TestTokenAfterTheHeader(t *testing.T) {
	s := newSite(t, nil)
	s.unary = func(ctx context.Context) (string, error) {
		if err := grpc.SendHeader(ctx, nil); err != nil {
			return "", err
		}
		return s.do(ctx, "login", "ann")
	}
	token := s.overGRPC("do", "").given
	if got := s.overGRPC("get", "", token); got.body != "ann/0" {
		t.Errorf("%q opens %+v", token, got)
	}
}

// TestRetriedCalls: a call that changes the token and then fails is made again by the client's retry policy. The
// token that the client has in the end opens the session.
func TestRetriedCalls(t *testing.T) {
	for _, kind := range []string{"unary", "stream"} {
		for _, tt := range []struct {
			op    string // fails when it has been done once
			shown string // by an operation before
			calls int
			want  string // what the last token opens
			left  int    // sessions of ann's
		}{
			{"login", "", 2, "ann/0", 2}, // nothing tells that it is the same client
			{"login", "count", 2, "ann/1", 1},
			{"login", "login", 2, "ann/0", 1},
			{"count", "", 2, "/1", 0},
			{"logout", "login", 2, "/0", 0},
			{"renew", "login", 1, "ann/0", 1}, // the next attempt could not be given the token
		} {
			t.Run(kind+" "+tt.op+" "+tt.shown, func(t *testing.T) {
				s := newSite(t, nil)
				token := ""
				if tt.shown != "" {
					token = s.overGRPC(tt.shown, "ann").given
				}
				calls := 0
				do := func(ctx context.Context) (string, error) {
					if _, err := s.do(ctx, tt.op, "ann"); err != nil {
						return "", err
					}
					if calls++; calls == 1 {
						return "", status.Error(codes.Unavailable, "later")
					}
					return "done", nil
				}
				s.unary = do
				s.stream = func(ss grpc.ServerStream) error {
					_, err := do(ss.Context())
					return err
				}
				var got answer
				if kind == "unary" {
					got = s.overGRPC("do", "", token)
				} else {
					c, _ := s.chat(token)
					if err := c.CloseSend(); err != nil {
						t.Fatal(err)
					}
					if err := c.RecvMsg(&wrapperspb.StringValue{}); err != io.EOF {
						got.code = status.Code(err)
					}
					header, err := c.Header()
					if err != nil {
						t.Fatal(err)
					}
					got.given = tokensOf(append(header.Get("session-token"), c.Trailer().Get("session-token")...))
				}
				if calls != tt.calls || (got.code == codes.OK) != (tt.calls > 1) {
					t.Errorf("%d calls, then %v; want %d", calls, got.code, tt.calls)
				}
				switch got.given {
				case "":
				case "forget":
					token = ""
				default:
					token = got.given
				}
				s.advance(time.Minute) // after the grace
				if got := s.overGRPC("get", "", token); got.body != tt.want {
					t.Errorf("the last token opens %+v, want %s", got, tt.want)
				}
				if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != tt.left {
					t.Errorf("%d sessions, %v; want %d", len(list), err, tt.left)
				}
			})
		}
	}
}

// TestTokenOfAFailedCall: a call that fails, and is not made again, brings its token too.
func TestTokenOfAFailedCall(t *testing.T) {
	s := newSite(t, nil)
	s.unary = func(ctx context.Context) (string, error) {
		return "", errors.Join(s.sessions.Login(ctx, session.Login{User: "ann"}, nil), status.Error(codes.Aborted, "no"))
	}
	got := s.overGRPC("do", "")
	if mine := s.overGRPC("get", "", got.given); got.code != codes.Aborted || mine.body != "ann/0" {
		t.Errorf("%+v, and its token opens %+v", got, mine)
	}
}

// chat opens a stream that shows token.
func (s *site) chat(token string) (grpc.ClientStream, context.CancelFunc) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+token))
	s.t.Cleanup(cancel)
	c, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Site/chat")
	if err != nil {
		s.t.Fatal(err)
	}
	return c, cancel
}

// say sends a message and returns the answer.
func say(c grpc.ClientStream, op string) (string, codes.Code) {
	var out wrapperspb.StringValue
	if err := c.SendMsg(wrapperspb.String(op)); err != nil && err != io.EOF {
		return "", status.Code(err)
	}
	err := c.RecvMsg(&out)
	return out.Value, status.Code(err)
}

// answers is a handler that executes the operation that each message names.
func (s *site) answers(ss grpc.ServerStream) error {
	for {
		var in wrapperspb.StringValue
		if err := ss.RecvMsg(&in); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		op, arg, _ := strings.Cut(in.Value, " ")
		out, err := s.do(ss.Context(), op, arg)
		if err != nil {
			out = err.Error()
		}
		if err := ss.SendMsg(wrapperspb.String(out)); err != nil {
			return err
		}
	}
}

func TestStreams(t *testing.T) {
	end := func(s *site) { s.overGRPC("everywhere", "ann") }
	for name, tt := range map[string]struct {
		o    grpcsession.Options
		busy bool // messages are accesses
		want codes.Code
	}{
		"at the start": {grpcsession.Options{}, false, codes.OK},
		"received":     {grpcsession.Options{Received: true}, true, codes.Unauthenticated},
		"sent":         {grpcsession.Options{Sent: true}, true, codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, &tt.o)
			s.stream = s.answers
			token := s.overGRPC("login", "ann").given
			c, _ := s.chat(token)
			for range 3 {
				if got, code := say(c, "get"); got != "ann/0" || code != codes.OK {
					t.Fatalf("%q, %v", got, code)
				}
				s.advance(20 * time.Minute)
			}
			want := "/0"
			if tt.busy {
				want = "ann/0"
			}
			if got := s.overGRPC("get", "", token); got.body != want {
				t.Errorf("after three messages in an hour: %+v, want %s", got, want)
			}
			end(s)
			if _, code := say(c, "get"); code != tt.want {
				t.Errorf("after the end: %v, want %v", code, tt.want)
			}
			begun := make(chan struct{})
			s.stream = func(ss grpc.ServerStream) error { close(begun); return s.answers(ss) }
			c, _ = s.chat(s.overGRPC("login", "ann").given)
			<-begun
			end(s)
			if _, code := say(c, "get"); code != tt.want {
				t.Errorf("after an end before the first message: %v, want %v", code, tt.want)
			}
			s.stream = s.answers
			anonymous, _ := s.chat("")
			if got, code := say(anonymous, "get"); got != "/0" || code != codes.OK {
				t.Errorf("nobody's stream: %q, %v", got, code)
			}
		})
	}
}

func TestStreamNeedsUser(t *testing.T) {
	s := newSite(t, &grpcsession.Options{Require: func(string) bool { return true }})
	s.stream = func(grpc.ServerStream) error { t.Error("the handler ran"); return nil }
	c, _ := s.chat("")
	if _, code := say(c, "get"); code != codes.Unauthenticated {
		t.Errorf("code %v", code)
	}
}

// TestTokensOfStreams: a token is sent with the header, and a call that would change it later
// fails.
func TestTokensOfStreams(t *testing.T) {
	s := newSite(t, nil)
	s.stream = s.answers
	c, _ := s.chat("")
	if got, code := say(c, "login ann"); got != "" || code != codes.OK {
		t.Fatalf("%q, %v", got, code)
	}
	header, err := c.Header()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.overGRPC("get", "", tokensOf(header.Get("session-token"))); got.body != "ann/0" {
		t.Errorf("the token of the header opens %+v", got)
	}
	if got, _ := say(c, "renew"); got != session.ErrHeaderSent.Error() {
		t.Errorf("a renewal after the header: %q", got)
	}

	for _, early := range []bool{false, true} {
		s.stream = func(ss grpc.ServerStream) error {
			if _, err := s.do(ss.Context(), "login", "bob"); err != nil || !early {
				return err
			}
			return ss.SendHeader(metadata.Pairs("own", "1"))
		}
		c, _ = s.chat("")
		header, err := c.Header()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.overGRPC("get", "", tokensOf(header.Get("session-token"))); got.body != "bob/0" || early && len(header.Get("own")) == 0 {
			t.Errorf("a stream without messages: the token of the header opens %+v", got)
		}
		if err := c.RecvMsg(&wrapperspb.StringValue{}); err != io.EOF {
			t.Errorf("the stream ends with %v", err)
		}
	}
}

// TestTokenOfAPanic: an interceptor outside of the guard recovers the panic of a handler. The client
// has the token that the call was given.
func TestTokenOfAPanic(t *testing.T) {
	s := newSite(t, nil)
	for _, op := range []string{"login", "renew"} {
		s.unary = func(ctx context.Context) (string, error) {
			if _, err := s.do(ctx, op, "ann"); err != nil {
				t.Error(err)
			}
			panic("bug")
		}
		s.stream = func(ss grpc.ServerStream) error {
			_, _ = s.unary(ss.Context())
			return nil
		}
		unary := s.overGRPC("do", "", s.overGRPC("login", "ann").given)
		c, _ := s.chat(s.overGRPC("login", "ann").given)
		err := c.RecvMsg(&wrapperspb.StringValue{})
		header, _ := c.Header()
		stream := answer{"", status.Code(err), tokensOf(append(header.Get("session-token"), c.Trailer().Get("session-token")...))}
		if inHeader := len(header.Get("session-token")) > 0; inHeader != (op == "renew") {
			t.Errorf("%s: the token of the stream that panicked is in the header: %v", op, inHeader)
		}
		s.advance(time.Minute)
		for _, got := range []answer{unary, stream} {
			if opened := s.overGRPC("get", "", got.given); got.code != codes.Internal || opened.body != "ann/0" {
				t.Errorf("%s: %+v opens %+v", op, got, opened)
			}
		}
	}
}

// TestStreamSendsHeaderByContext: the handler of a stream sends the header by grpc.SendHeader, which the
// guard does not see. The token is in the trailer, and messages are sent.
func TestStreamSendsHeaderByContext(t *testing.T) {
	s := newSite(t, nil)
	for _, op := range []string{"login", "renew"} {
		s.stream = func(ss grpc.ServerStream) error {
			if _, err := s.do(ss.Context(), op, "ann"); err != nil {
				return err
			}
			if err := grpc.SendHeader(ss.Context(), metadata.Pairs("own", "1")); err != nil {
				return err
			}
			return ss.SendMsg(wrapperspb.String("hello"))
		}
		c, _ := s.chat(s.overGRPC("login", "ann").given)
		var out wrapperspb.StringValue
		if err := c.RecvMsg(&out); err != nil || out.Value != "hello" {
			t.Errorf("%s: %q, %v", op, out.Value, err)
		}
		if err := c.RecvMsg(&out); err != io.EOF {
			t.Errorf("%s: the stream ends with %v", op, err)
		}
		s.advance(time.Minute)
		if got := s.overGRPC("get", "", tokensOf(c.Trailer().Get("session-token"))); got.body != "ann/0" {
			t.Errorf("%s: the token of the trailer opens %+v", op, got)
		}
	}
}

// TestErrorsOfTheApplication: what is not the session manager's passes unchanged.
func TestErrorsOfTheApplication(t *testing.T) {
	s := newSite(t, nil)
	exhausted := status.Error(codes.ResourceExhausted, "slow down")
	for _, tt := range []struct {
		fails error
		want  codes.Code
	}{
		{slidingttl.ErrNotFound, codes.Unknown},
		{&slidingttl.Error{Op: "get", Err: slidingttl.ErrNotFound}, codes.Unknown},
		{&slidingttl.InvalidError{Field: "order", Value: "-1", Rule: "must be positive"}, codes.Unknown},
		{fmt.Errorf("%w: %w", exhausted, context.DeadlineExceeded), codes.ResourceExhausted},
	} {
		s.unary = func(context.Context) (string, error) { return "", tt.fails }
		if got := s.overGRPC("do", ""); got.code != tt.want || !errors.Is(*s.seen.Load(), tt.fails) {
			t.Errorf("%v: %+v, seen %v", tt.fails, got, *s.seen.Load())
		}
		s.unary = func(ctx context.Context) (string, error) {
			return "", s.sessions.Update(ctx, func(*Data) error { return tt.fails })
		}
		if got := s.overGRPC("do", ""); got.code != tt.want {
			t.Errorf("by the function of an Update, %v: %+v", tt.fails, got)
		}
	}
}

// TestErrorsOfTheStore: a store's own status, or time limit, is no answer to a client.
func TestErrorsOfTheStore(t *testing.T) {
	s := newSite(t, nil)
	for _, cause := range []error{
		status.Error(codes.PermissionDenied, "secret host"),
		fmt.Errorf("secret: %w", context.DeadlineExceeded),
		fmt.Errorf("secret: %w", context.Canceled),
	} {
		s.unary = func(context.Context) (string, error) {
			return "", &session.Error{Err: &slidingttl.Error{Op: "get", Err: cause}}
		}
		if got := s.overGRPC("do", ""); got.code != codes.Unavailable {
			t.Errorf("%v: %v, want Unavailable", cause, got.code)
		}
	}
	s.unary = func(context.Context) (string, error) {
		return "", &session.Error{Err: &slidingttl.Error{Op: "update", Err: slidingttl.ErrAmbiguous}}
	}
	if got := s.overGRPC("do", ""); got.code != codes.Unknown {
		t.Errorf("a write that may have landed: %v, want Unknown: a client that makes the call again may write twice", got.code)
	}
}

// TestStreamAfterItsUser: an anonymous session in place of the user's, which was revoked, is no reason
// to go on.
func TestStreamAfterItsUser(t *testing.T) {
	s := newSite(t, &grpcsession.Options{Received: true})
	token := s.overGRPC("login", "ann").given
	s.stream = func(ss grpc.ServerStream) error {
		if err := s.sessions.Destroy(ss.Context()); err != nil {
			return err
		}
		if _, err := s.do(ss.Context(), "count", ""); err != nil {
			return err
		}
		return ss.RecvMsg(&wrapperspb.StringValue{})
	}
	c, _ := s.chat(token)
	if err := c.SendMsg(wrapperspb.String("")); err != nil {
		t.Fatal(err)
	}
	if err := c.RecvMsg(&wrapperspb.StringValue{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v, want Unauthenticated", err)
	}
}
