package main

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// steering is the limits of a running operation, which its port of metrics and SIGUSR1 change.
type steering struct {
	mu     sync.Mutex // guards the rest
	limits upkeep.Limits
	paused bool
}

// now is upkeep.Options.Steer.
func (s *steering) now() (upkeep.Limits, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits, s.paused
}

// signals has SIGUSR1 pause the operation, and go on with it, until the function returned is called.
func (s *steering) signals() (stop func()) {
	if len(pauseSignals) == 0 { // none would mean all
		return func() {}
	}
	c, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(c, pauseSignals...)
	go func() {
		for {
			select {
			case <-c:
				s.mu.Lock()
				s.paused = !s.paused
				s.mu.Unlock()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(c); close(done) }
}

// ServeHTTP implements http.Handler: POST /pause, /resume and /limits?writes=200&rate=5000&cost=0. It serves
// programs of this machine only, and no page in its browser.
func (s *steering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	switch ip := net.ParseIP(host); {
	case ip == nil || !ip.IsLoopback() || r.Header.Get("Origin") != "" || r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "only a program on the machine of the operation may steer it", http.StatusForbidden)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "must be a POST", http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := s.limits
	if r.URL.Path == "/limits" {
		all := map[string]*float64{"rate": &limits.Records, "writes": &limits.Writes, "cost": &limits.Cost}
		given, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || len(given) == 0 || r.ContentLength != 0 {
			http.Error(w, "must be POST /limits?writes=200&rate=5000&cost=0, with one of these or several, and no body", http.StatusBadRequest)
			return
		}
		for name, values := range given {
			to := all[name]
			n, err := strconv.ParseFloat(values[0], 64)
			if to == nil || len(values) > 1 || err != nil || !(n >= 0) || math.IsInf(n, 0) {
				http.Error(w, fmt.Sprintf("%q must be one of rate, writes and cost, with one number that is not negative; 0: no limit", name), http.StatusBadRequest)
				return
			}
			*to = n
		}
	}
	s.limits = limits
	if r.URL.Path != "/limits" {
		s.paused = r.URL.Path == "/pause"
	}
	_, _ = fmt.Fprintf(w, "paused %v, rate %v, writes %v, cost %v\n", s.paused, limits.Records, limits.Writes, limits.Cost)
}
