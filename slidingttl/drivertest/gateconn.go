package drivertest

import (
	"net"
	"sync"
)

// Conn returns a connection through the gate to server. writes reports whether bytes that the
// client sends, mostly a whole request, may write. Closing either end closes both.
func (g *Gate) Conn(server net.Conn, writes func([]byte) bool) (net.Conn, error) {
	near, far, err := pair()
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	c := &gated{client: far, server: server}
	go c.pump(far, func(p []byte) error {
		if writes(p) {
			if f := g.take(); f != nil {
				return c.stopped(g, p, f)
			}
		}
		_, err := server.Write(p)
		return err
	})
	go c.pump(server, c.answered)
	return near, nil
}

// gated is a connection of a client, and the one to the server behind it.
type gated struct {
	client, server net.Conn
	mu             sync.Mutex // guards held
	held           *heldAnswer
}

// heldAnswer is the answer to a stopped write.
type heldAnswer struct {
	came    sync.Once
	arrived chan struct{} // closed when it has come or cannot come any more
	decided chan struct{} // closed when back is set
	back    Answer
}

func (c *gated) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// pump forwards what it reads from src, until an error.
func (c *gated) pump(src net.Conn, hand func([]byte) error) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := src.Read(buffer)
		if err == nil {
			err = hand(buffer[:n])
		}
		if err != nil {
			c.close() // first: a write stopped from now on cannot be delivered
			if h := c.holding(); h != nil {
				h.came.Do(func() { close(h.arrived) })
			}
			return
		}
	}
}

// stopped calls f in place of a write.
func (c *gated) stopped(g *Gate, p []byte, f func(func()) Answer) (err error) {
	h := &heldAnswer{arrived: make(chan struct{}), decided: make(chan struct{})}
	c.mu.Lock()
	c.held = h
	c.mu.Unlock()
	h.back = f(func() {
		if _, err = c.server.Write(p); err == nil {
			<-h.arrived
		}
	})
	close(h.decided)
	switch h.back {
	case Reset:
		err = errReset
	case Silent:
		g.mute(c.close)
	}
	return err
}

func (c *gated) holding() *heldAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// answered forwards an answer, unless it is to the stopped write.
func (c *gated) answered(p []byte) error {
	if h := c.holding(); h != nil {
		h.came.Do(func() { close(h.arrived) })
		<-h.decided
		switch h.back {
		case Reset:
			return errReset
		case Silent:
			return nil
		}
	}
	_, err := c.client.Write(p)
	return err
}

// pair returns the two ends of a connection, which has deadlines as any other.
func pair() (near, far net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = l.Close() }()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if far, err = l.Accept(); err != nil {
		_ = near.Close()
	}
	return near, far, err
}
