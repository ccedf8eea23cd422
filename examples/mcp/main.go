// Mcp is a server of the Model Context Protocol whose tools have state. Since its revision of
// 2026-07-28 the protocol has no sessions: a tool mints a handle, and the agent gives it back with
// each call. Here a handle opens a basket to the principal who opened it, and to nobody else. A
// basket lives for 30 minutes after its last use, and for 12 hours at most. Replicas share a store,
// so that any of them answers any call, and may be killed.
//
//	go run ./examples/mcp -driver redis -address redis://localhost:6379 -addr localhost:8084
//	curl -H 'Authorization: Bearer ann-token' -H 'Content-Type: application/json' \
//		-H 'Accept: application/json, text/event-stream' http://localhost:8084 \
//		-d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"basket_open","arguments":{}}}'
//
// The tools are in baskets.go. The principal is the user of the bearer token: "ann-token" is ann's, and
// "bob-token" bob's. A server that people use verifies tokens of its authorization server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/examples/internal/web"
	"github.com/slidingttl/slidingttl/slidingttl"
)

var policy = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}

func main() {
	addr := flag.String("addr", "localhost:8084", "address to listen on")
	choice := backend.Choice{}
	choice.Flags()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, choice); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr string, choice backend.Choice) (err error) {
	opened, err := backend.Open[Basket](ctx, choice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	store, err := slidingttl.New(opened.Driver, policy, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(context.Background())) }()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: web.Within(5*time.Second, handler(store)), ReadHeaderTimeout: 10 * time.Second}
	fmt.Printf("listening on http://%s, %s\n", l.Addr(), opened.About)
	return web.Serve(ctx, server, func() error { return server.Serve(l) })
}

func handler(store *slidingttl.Store[Basket]) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "baskets", Version: "1"}, nil)
	addTools(server, store)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return auth.RequireBearerToken(verify, nil)(h)
}

// verify knows a token's user by the token itself. It is no example of how to do that.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user, ok := strings.CutSuffix(token, "-token")
	if !ok || user == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
}
