package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

// service is what runs, in the order in which it was started.
type service struct {
	config
	signals  *signals
	backend  *backend.Opened[profile]
	store    *slidingttl.Store[profile]
	policies *policies
	public   *server
	admin    *server
	draining atomic.Bool
	failed   chan error // of a listener
}

// start returns a service that answers. On an error it has stopped what it started.
func start(ctx context.Context, c config) (s *service, err error) {
	s = &service{config: c, failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
		}
	}()
	if s.signals, err = newSignals(ctx, c.spans); err != nil {
		return s, err
	}
	if s.policies, err = openPolicies(c.policies); err != nil {
		return s, err
	}
	if s.backend, err = backend.Open[profile](ctx, c.backend); err != nil {
		return s, err
	}
	if s.store, err = s.open(); err != nil {
		return s, err
	}
	s.policies.follow(s.store, c.follow, c.log)
	if s.public, err = listen(c.addr, s.traced(routes(profiles{s.store})), s.failed); err != nil {
		return s, err
	}
	if s.admin, err = listen(c.admin, s.adminRoutes(), s.failed); err != nil {
		return s, err
	}
	c.log.Info("serving", "address", s.public.address(), "admin", s.admin.address(),
		"store", s.backend.About, "policies", s.policies.path, "policy", s.store.Policy())
	return s, nil
}

// open makes the store over the traced driver.
func (s *service) open() (*slidingttl.Store[profile], error) {
	d, err := slidingotel.Wrap(s.signals.telemetry, s.backend.Driver, slidingotel.Database{
		System:     systems[s.config.backend.Driver],
		Collection: storeName,
	})
	if err != nil {
		return nil, err
	}
	observer, err := s.signals.collector.Observer(storeName)
	if err != nil {
		return nil, err
	}
	store, err := slidingttl.New(driver.Driver[profile](d), s.policies.first(), &slidingttl.Options[profile]{
		Observer: observer,
		Logger:   s.log,
	})
	if err != nil {
		return nil, err
	}
	return store, errors.Join(s.signals.collector.Add(storeName, store), s.signals.collector.AddPolicies(storeName, s.policies.file))
}

// stop ends the service from the outside in, so that calls under way still find what they
// need. When ctx ends it gives up the rest, and reports that.
func (s *service) stop(ctx context.Context) error {
	s.draining.Store(true) // no more requests are sent here
	pause(ctx, s.linger)
	err := s.public.stop(ctx) // accepts none, and answers those it has
	if s.policies != nil {
		s.policies.stop()
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close(ctx)) // carries out the touches that wait
	}
	if s.backend != nil {
		err = errors.Join(err, s.backend.Close())
	}
	// Last, so that telemetry covers all of the above, even if that took all the time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if s.signals != nil {
		err = errors.Join(err, s.signals.stop(ctx))
	}
	return errors.Join(err, s.admin.stop(ctx))
}

// flushTimeout bounds the sending of the last telemetry.
const flushTimeout = 5 * time.Second

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// server is an HTTP server and its listener.
type server struct {
	http     *http.Server
	listener net.Listener
	serving  sync.WaitGroup
}

func listen(addr string, h http.Handler, failed chan<- error) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &server{http: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}, listener: l}
	s.serving.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
	return s, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

// stop ends s when its requests have been answered, or ctx has ended.
func (s *server) stop(ctx context.Context) error {
	if s == nil {
		return nil
	}
	defer s.serving.Wait()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}
