package grpcsession_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidingttl/slidingttl/drivers/memory"
	grpcsession "github.com/slidingttl/slidingttl/middleware/grpc"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type Data struct {
	Count int    `json:"count"`
	Text  string `json:"text"`
}

// store is a driver that can be made to fail.
type store struct {
	driver.Driver[session.Record]
	down atomic.Bool
}

func (s *store) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	if s.down.Load() {
		return driver.Entry[session.Record]{}, errors.New("secret.example: connection refused")
	}
	return s.Driver.Get(ctx, key)
}

// site is one manager behind a gRPC server and a net/http server.
type site struct {
	t        *testing.T
	sessions *session.Manager[Data]
	store    *store
	ahead    atomic.Int64
	pipe     *bufconn.Listener
	conn     *grpc.ClientConn
	http     *httptest.Server
	seen     atomic.Pointer[error]                     // the last error in an interceptor outside of ours
	stream   func(s grpc.ServerStream) error           // the handler of Chat
	unary    func(ctx context.Context) (string, error) // of the operation "do"
}

func (s *site) advance(d time.Duration) { s.ahead.Add(int64(d)) }

func newSite(t *testing.T, o *grpcsession.Options) *site {
	t.Helper()
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: &store{Driver: d}}
	start := time.Now().Truncate(time.Second)
	s.sessions, err = session.New[Data](s.store, &session.Options{
		MaxData: 100,
		Policy:  slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 2 * time.Hour},
		Now:     func() time.Time { return start.Add(time.Duration(s.ahead.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	guard := grpcsession.New(s.sessions, o)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
			defer recovered(&err)
			answer, err := handler(ctx, req)
			s.seen.Store(&err)
			return answer, err
		}, guard.Unary),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer recovered(&err)
			return handler(srv, ss)
		}, guard.Stream),
	)
	s.serve(server)
	pipe := bufconn.Listen(1 << 16)
	s.pipe = pipe
	served := make(chan error)
	go func() { served <- server.Serve(pipe) }()
	s.conn, err = grpc.NewClient("passthrough:///site", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{"method": "do", "service": "test.Site"}, {"method": "chat", "service": "test.Site"}], "retryPolicy":
			{"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	s.http = httptest.NewServer(s.sessions.Over(session.Bearer{})(s.handler()))
	t.Cleanup(func() {
		s.http.Close()
		err := s.conn.Close()
		server.Stop()
		if err := errors.Join(err, <-served, s.sessions.Close(context.Background()), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// recovered makes the status Internal of a handler's panic.
func recovered(err *error) {
	if recover() != nil {
		*err = status.Error(codes.Internal, "panic")
	}
}

// do executes an operation, for both servers.
func (s *site) do(ctx context.Context, op, arg string) (string, error) {
	switch op {
	case "login":
		return "", s.sessions.Login(ctx, session.Login{User: arg}, nil)
	case "logout":
		return "", s.sessions.Destroy(ctx)
	case "renew":
		return "", s.sessions.Renew(ctx)
	case "everywhere":
		return "", s.sessions.RevokeAll(ctx, arg)
	case "revoke":
		return "", s.sessions.Revoke(ctx, arg, "none")
	case "count":
		return "", s.sessions.Update(ctx, func(d *Data) error { d.Count++; d.Text = arg; return nil })
	case "do":
		return s.unary(ctx)
	}
	v, err := s.sessions.Get(ctx)
	return fmt.Sprintf("%s/%d", v.User, v.Data.Count), err
}

// serve registers a service whose methods take and return a text.
func (s *site) serve(server *grpc.Server) {
	desc := &grpc.ServiceDesc{ServiceName: "test.Site", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "chat", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, ss grpc.ServerStream) error { return s.stream(ss) },
	}}}
	for _, op := range []string{"login", "logout", "renew", "everywhere", "revoke", "count", "get", "mine", "do"} {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: op, Handler: func(_ any, ctx context.Context, dec func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
			var in wrapperspb.StringValue
			if err := dec(&in); err != nil {
				return nil, err
			}
			return i(ctx, &in, &grpc.UnaryServerInfo{FullMethod: "/test.Site/" + op}, func(ctx context.Context, _ any) (any, error) {
				out, err := s.do(ctx, op, in.Value)
				return wrapperspb.String(out), err
			})
		}})
	}
	server.RegisterService(desc, s)
}

// handler is the same for net/http, with a status in place of gRPC's code.
func (s *site) handler() http.Handler {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := s.do(r.Context(), r.URL.Path[1:], r.FormValue("arg"))
		switch {
		case errors.Is(err, session.ErrEnded):
			w.WriteHeader(http.StatusUnauthorized)
		case errors.Is(err, slidingttl.ErrInvalid):
			w.WriteHeader(http.StatusBadRequest)
		case errors.Is(err, slidingttl.ErrNotFound):
			w.WriteHeader(http.StatusNotFound)
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte(out))
		}
	})
	mux := http.NewServeMux()
	mux.Handle("/mine", s.sessions.Require("")(h))
	mux.Handle("/", h)
	return mux
}

func mine(method string) bool { return method == "/test.Site/mine" }

// answer is what a client gets. given is the new token, "forget", or "" for none.
type answer struct {
	body  string
	code  codes.Code
	given string
}

// call calls an operation with these tokens.
type call func(op, arg string, tokens ...string) answer

func tokensOf(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case values[0] == "":
		return "forget"
	}
	return values[0]
}

func (s *site) overGRPC(op, arg string, tokens ...string) answer {
	ctx := context.Background()
	for _, t := range tokens {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t)
	}
	var out wrapperspb.StringValue
	var header, trailer metadata.MD
	err := s.conn.Invoke(ctx, "/test.Site/"+op, wrapperspb.String(arg), &out, grpc.Header(&header), grpc.Trailer(&trailer))
	if strings.Contains(fmt.Sprint(err), "secret") {
		s.t.Errorf("the client is told %v", err)
	}
	return answer{out.Value, status.Code(err), tokensOf(append(header.Get("session-token"), trailer.Get("session-token")...))}
}

func (s *site) overHTTP(op, arg string, tokens ...string) answer {
	req := httptest.NewRequest("GET", "/"+op+"?arg="+arg, nil)
	for _, t := range tokens {
		req.Header.Add("Authorization", "Bearer "+t)
	}
	w := httptest.NewRecorder()
	s.http.Config.Handler.ServeHTTP(w, req)
	code := map[int]codes.Code{
		200: codes.OK, 400: codes.InvalidArgument, 401: codes.Unauthenticated, 404: codes.NotFound, 503: codes.Unavailable,
	}[w.Code]
	a := answer{w.Body.String(), code, tokensOf(w.Header()["Session-Token"])}
	if code != codes.OK {
		a.body = ""
	}
	return a
}
