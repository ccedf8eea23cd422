// Sessions is a small web app that shows its sessions. Log in, watch the idle timeout and
// the absolute timeout count down, see and revoke your devices.
//
//	go run ./examples/sessions
//
// and open http://localhost:8080. With -cert and -key it serves https and uses the
// cookie that production should; -idle, -max and -slack set the timeouts.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/examples/internal/web"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

type config struct {
	addr, cert, key string
	idle, max       time.Duration
	slack           time.Duration
	store           backend.Choice
}

func main() {
	var c config
	flag.StringVar(&c.addr, "addr", "localhost:8080", "address to listen on")
	c.store.Flags()
	flag.StringVar(&c.cert, "cert", "", "TLS certificate file; without it plain http, for localhost only")
	flag.StringVar(&c.key, "key", "", "TLS key file")
	flag.DurationVar(&c.idle, "idle", 2*time.Minute, "idle timeout")
	flag.DurationVar(&c.max, "max", 10*time.Minute, "absolute timeout")
	flag.DurationVar(&c.slack, "slack", 20*time.Second, "how far the stored expiry may run past the idle deadline")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c config) (err error) {
	b, err := backend.Open[session.Record](ctx, c.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	a, err := newApp(b.Driver, session.Options{
		Policy:            slidingttl.Policy{IdleGrace: c.idle, MaxLifetime: c.max, Slack: min(c.slack, c.idle)},
		InsecureLocalhost: c.cert == "",
		OnReplay: func(_ context.Context, s session.Info) {
			log.Printf("a former token of session %.8s (%s) was shown", s.ID, s.User)
		},
		OnError: func(_ context.Context, err error) { log.Print(err) },
	}, 2*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.sessions.Close(context.Background())) }()

	server := &http.Server{Addr: c.addr, Handler: web.Within(5*time.Second, a.handler()), ReadHeaderTimeout: 10 * time.Second}
	scheme, listen := "http", server.ListenAndServe
	if c.cert != "" {
		scheme, listen = "https", func() error { return server.ListenAndServeTLS(c.cert, c.key) }
	}
	log.Printf("listening on %s://%s, sessions in %s", scheme, c.addr, b.About)
	return web.Serve(ctx, server, listen)
}
