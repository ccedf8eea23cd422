package redistest

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/redis/rueidis"
)

// Proxy forwards between a client and its servers, and can cause faults. Its methods are safe
// for concurrent use.
type Proxy struct {
	closed   chan struct{} // when the test has ended
	mu       sync.Mutex    // guards the rest
	lose     int
	redirect map[string]string
	open     chan struct{} // closed: answers pass
	links    map[*link]bool
	copies   sync.WaitGroup
}

// link is a connection of a client, and the one to the server behind it.
type link struct{ client, server net.Conn }

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// NewProxy returns a proxy that lets everything pass. It closes when the test ends.
func NewProxy(t testing.TB) *Proxy {
	p := &Proxy{closed: make(chan struct{}), redirect: make(map[string]string), open: make(chan struct{}), links: make(map[*link]bool)}
	close(p.open)
	t.Cleanup(func() {
		close(p.closed)
		p.Cut()
		p.copies.Wait()
	})
	return p
}

// Option returns option with all connections going through the proxy.
func (p *Proxy) Option(option rueidis.ClientOption) rueidis.ClientOption {
	option.DialCtxFn = p.dial
	return option
}

// Hang holds back every answer until release is called.
func (p *Proxy) Hang() (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.open = gate
	p.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

// Lose drops the next n answers: it closes the connection instead of sending each.
func (p *Proxy) Lose(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = n
}

// Redirect sends new connections to one address to another.
func (p *Proxy) Redirect(from, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.redirect[from] = to
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

func (p *Proxy) dial(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	p.mu.Lock()
	if to, ok := p.redirect[address]; ok {
		address = to
	}
	p.mu.Unlock()
	server, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	near, far, err := pair(ctx)
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	l := &link{client: far, server: server}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		l.close()
		return near, nil
	default:
	}
	p.links[l] = true
	p.copies.Go(func() { p.pass(l, l.server, l.client, func() bool { return true }) })
	p.copies.Go(func() { p.pass(l, l.client, l.server, p.answer) })
	return near, nil
}

// pair returns the two ends of a connection that supports deadlines.
func pair(ctx context.Context) (near, far net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if near, err = new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	far, err = l.Accept()
	return near, far, err
}

// pass copies from src to dst, when answers may pass, until one closes. Then it closes both.
func (p *Proxy) pass(l *link, dst, src net.Conn, may func() bool) {
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
		l.close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if err != nil || !may() {
			return
		}
		if _, err := dst.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// answer waits while answers are held, and reports whether this one may pass.
func (p *Proxy) answer() bool {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
	case <-p.closed:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose > 0 {
		p.lose--
		return false
	}
	return true
}
