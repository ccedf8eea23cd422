package frameworks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// The procedures, as connect's generator would name them.
const (
	login   = "/account.v1.Account/Login"
	logout  = "/account.v1.Account/Logout"
	whoAmI  = "/account.v1.Account/WhoAmI"
	follow  = "/account.v1.Account/Follow"
	private = "/account.v1.Private/WhoAmI" // under Require
)

type (
	nothing = emptypb.Empty
	text    = wrapperspb.StringValue
)

// underConnect is a site of Connect's handlers, which are net/http's.
func underConnect(sessions *session.Manager[Data]) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(login, connect.NewUnaryHandler(login, func(ctx context.Context, r *connect.Request[text]) (*connect.Response[nothing], error) {
		if err := sessions.Login(ctx, session.Login{User: r.Msg.Value}, nil); err != nil {
			return nil, err
		}
		return connect.NewResponse(&nothing{}), nil
	}))
	mux.Handle(logout, connect.NewUnaryHandler(logout, func(ctx context.Context, _ *connect.Request[nothing]) (*connect.Response[nothing], error) {
		return connect.NewResponse(&nothing{}), sessions.Destroy(ctx)
	}))
	who := func(ctx context.Context, _ *connect.Request[nothing]) (*connect.Response[text], error) {
		s, err := sessions.Get(ctx)
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		return connect.NewResponse(wrapperspb.String(s.User)), nil
	}
	mux.Handle(whoAmI, connect.NewUnaryHandler(whoAmI, who))
	mux.Handle(private, sessions.Require("")(connect.NewUnaryHandler(private, who)))
	mux.Handle(follow, connect.NewServerStreamHandler(follow, func(ctx context.Context, _ *connect.Request[nothing], out *connect.ServerStream[text]) error {
		s, err := sessions.Get(ctx) // before the header leaves
		for s.ID != "" && err == nil {
			if err = out.Send(wrapperspb.String(s.User)); err == nil {
				s, err = sessions.Refresh(ctx)
			}
		}
		if err != nil {
			return err
		}
		return connect.NewError(connect.CodeUnauthenticated, nil)
	}))
	return sessions.Over(session.Bearer{})(mux)
}

// TestConnect: sessions work in front of Connect's handlers as they are, by each of its protocols, in
// calls and in streams.
func TestConnect(t *testing.T) {
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithProtoJSON(), "grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d, err := memory.New[session.Record](nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			sessions, err := session.New[Data](d, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer sessions.Close(context.Background())
			server := httptest.NewUnstartedServer(underConnect(sessions))
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()

			token := ""
			ask := func(procedure string) (string, error) {
				r := connect.NewRequest(&nothing{})
				r.Header().Set("Authorization", "Bearer "+token)
				res, err := connect.NewClient[nothing, text](server.Client(), server.URL+procedure, protocol).CallUnary(ctx, r)
				if err != nil {
					return "", err
				}
				return res.Msg.Value, nil
			}
			if who, err := ask(whoAmI); who != "" || err != nil {
				t.Errorf("nobody is %q, %v", who, err)
			}
			if _, err := ask(private); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("nobody, where a user is required: %v", err)
			}
			res, err := connect.NewClient[text, nothing](server.Client(), server.URL+login, protocol).CallUnary(ctx, connect.NewRequest(wrapperspb.String("ann")))
			if err != nil {
				t.Fatal(err)
			}
			if token = res.Header().Get("Session-Token"); token == "" || res.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("the login's header is %v", res.Header())
			}
			for _, procedure := range []string{whoAmI, private} {
				if who, err := ask(procedure); who != "ann" || err != nil {
					t.Errorf("%s: %q, %v", procedure, who, err)
				}
			}

			// A stream ends with the session that it was begun with.
			r := connect.NewRequest(&nothing{})
			r.Header().Set("Authorization", "Bearer "+token)
			stream, err := connect.NewClient[nothing, text](server.Client(), server.URL+follow, protocol).CallServerStream(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if !stream.Receive() || stream.Msg().Value != "ann" {
				t.Fatalf("the stream begins with %v, %v", stream.Msg(), stream.Err())
			}
			out := connect.NewRequest(&nothing{})
			out.Header().Set("Authorization", "Bearer "+token)
			gone, err := connect.NewClient[nothing, nothing](server.Client(), server.URL+logout, protocol).CallUnary(ctx, out)
			if err != nil || len(gone.Header()["Session-Token"]) != 1 || gone.Header().Get("Session-Token") != "" {
				t.Fatalf("the logout: %v, %v", gone, err)
			}
			for stream.Receive() {
			}
			if connect.CodeOf(stream.Err()) != connect.CodeUnauthenticated {
				t.Errorf("the stream ends with %v", stream.Err())
			}
			if _, err := ask(private); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("after the logout: %v", err)
			}
		})
	}
}
