package grpcsession_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidingttl/slidingttl/drivers/memory"
	grpcsession "github.com/slidingttl/slidingttl/middleware/grpc"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// A visitor is a service of two methods: Check logs in, List names the caller. It uses the
// interface of gRPC's health service, so that no code has to be generated.
type visitor struct {
	health.UnimplementedHealthServer
	sessions *session.Manager[Data]
}

func (v *visitor) Check(ctx context.Context, in *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	// ... after the password was checked:
	err := v.sessions.Login(ctx, session.Login{User: in.Service}, nil)
	return &health.HealthCheckResponse{}, err
}

func (v *visitor) List(ctx context.Context, _ *health.HealthListRequest) (*health.HealthListResponse, error) {
	s, err := v.sessions.Get(ctx)
	if err != nil {
		return nil, err
	}
	return &health.HealthListResponse{Statuses: map[string]*health.HealthCheckResponse{s.User: {}}}, nil
}

// tokens is the client's part: it sends its token and keeps the one it is given. Only one call
// at a time may use it; an application that calls concurrently needs a lock.
type tokens struct{ token string }

func (t *tokens) intercept(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if t.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t.token)
	}
	var header, trailer metadata.MD
	err := invoke(ctx, method, in, out, cc, append(opts, grpc.Header(&header), grpc.Trailer(&trailer))...)
	if given := append(header.Get("session-token"), trailer.Get("session-token")...); len(given) > 0 {
		t.token = given[0]
	}
	return err
}

// A server whose method List requires a user, and a client that logs in. Over a network both
// need TLS.
func Example() {
	ctx := context.Background()
	d, err := memory.New[session.Record](nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	sessions, err := session.New[Data](d, nil) // 30 minutes idle, 12 hours in all
	if err != nil {
		log.Fatal(err)
	}
	defer sessions.Close(ctx)
	guard := grpcsession.New(sessions, &grpcsession.Options{
		Require: func(method string) bool { return method == health.Health_List_FullMethodName },
	})
	server := grpc.NewServer(grpc.UnaryInterceptor(guard.Unary), grpc.StreamInterceptor(guard.Stream))
	health.RegisterHealthServer(server, &visitor{sessions: sessions})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(new(tokens).intercept))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := health.NewHealthClient(conn)

	_, err = client.List(ctx, &health.HealthListRequest{})
	fmt.Println(status.Code(err))
	if _, err = client.Check(ctx, &health.HealthCheckRequest{Service: "ann"}); err != nil {
		log.Fatal(err)
	}
	who, err := client.List(ctx, &health.HealthListRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for user := range who.Statuses {
		fmt.Println("hello,", user)
	}
	// Output:
	// Unauthenticated
	// hello, ann
}
