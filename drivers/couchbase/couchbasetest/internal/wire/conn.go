// Package wire is the server's side of the memcached binary protocol: requests as they
// come in, checked before the codec sees them, and responses, held back on demand.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
)

const bufferSize = 16 << 10

// Conn is one client connection. One goroutine reads and writes; Close may be called
// from any.
type Conn struct {
	nc io.ReadWriteCloser
	br *bufio.Reader
	// in decodes requests, out encodes responses. They are two because the
	// codec, once told of collections, puts a collection id in front of the key
	// of whatever it encodes, and responses have none.
	in, out *memd.Conn

	// wmu guards bw, out and, through it, everything written.
	wmu sync.Mutex
	bw  *bufio.Writer

	delayed   chan delayedResponse // made with the first response that is held back
	delayDone chan struct{}

	closing sync.Once
	closed  chan struct{}
}

// MalformedError says that the client sent what is no request.
type MalformedError struct{ Err error }

// Error implements error.
func (e *MalformedError) Error() string { return "malformed packet: " + e.Err.Error() }

// Unwrap returns what is wrong with it.
func (e *MalformedError) Unwrap() error { return e.Err }

// New returns a connection over nc that has negotiated nothing.
func New(nc io.ReadWriteCloser) *Conn {
	c := &Conn{nc: nc, closed: make(chan struct{})}
	c.br = bufio.NewReaderSize(flushBeforeRead{c}, bufferSize)
	c.bw = bufio.NewWriterSize(nc, bufferSize)
	c.Negotiate(false, false)
	return c
}

// Negotiate begins anew: with collection ids before the keys of requests or without,
// with responses that tell how long they took or without.
func (c *Conn) Negotiate(collections, durations bool) {
	in, out := memd.NewConn(bufio.NewReadWriter(c.br, nil)), memd.NewConn(bufio.NewReadWriter(nil, c.bw))
	if collections {
		in.EnableFeature(memd.FeatureCollections)
	}
	if durations {
		out.EnableFeature(memd.FeatureDurations)
	}
	c.in = in
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.out = out
}

// flushBeforeRead sends what has been answered so far whenever the connection
// has to wait for more to do: pipelined requests share a write.
type flushBeforeRead struct{ c *Conn }

func (r flushBeforeRead) Read(p []byte) (int, error) {
	r.c.wmu.Lock()
	err := r.c.bw.Flush()
	r.c.wmu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.c.nc.Read(p)
}

// Next waits for a request and returns its command. Read or Skip must follow.
func (c *Conn) Next() (memd.CmdCode, error) {
	header, err := c.br.Peek(headerLen)
	if err != nil {
		return 0, err
	}
	if err := c.checkHeader(header); err != nil {
		return 0, malformed(err)
	}
	return memd.CmdCode(header[1]), nil
}

// Read returns the request, which memd.ReleasePacket takes back.
func (c *Conn) Read() (*memd.Packet, error) {
	req, _, err := c.in.ReadPacket()
	return req, malformed(err)
}

// malformed tells what is wrong with a request from what is wrong with the network.
func malformed(err error) error {
	var ne net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &ne) {
		return err
	}
	return &MalformedError{err}
}

// Skip passes over the request and returns its opaque, by the header alone: the codec
// refuses some commands that it does not know.
func (c *Conn) Skip() (opaque uint32, err error) {
	header, err := c.br.Peek(headerLen)
	if err != nil {
		return 0, err
	}
	opaque = binary.BigEndian.Uint32(header[12:])
	_, err = c.br.Discard(headerLen + int(binary.BigEndian.Uint32(header[8:])))
	return opaque, err
}

// Write sends a response after delay, and not before released is closed, if it is not nil.
// p may be reused once it has returned.
func (c *Conn) Write(p *memd.Packet, delay time.Duration, released <-chan struct{}) error {
	if delay > 0 || released != nil || c.delayed != nil {
		return c.writeLater(p, delay, released)
	}
	return c.write(p)
}

func (c *Conn) write(p *memd.Packet) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.out.WritePacket(p)
}

// HangUp lets the client read the end of the connection, and returns once the client has
// closed it too, or Close was called. Close alone resets a connection with requests unread.
func (c *Conn) HangUp() {
	c.EndWrites()
	_, _ = io.Copy(io.Discard, c.nc)
	c.Close()
}

// EndWrites lets the client read the end of the connection. Every later Write fails.
func (c *Conn) EndWrites() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	c.Close()
}

// Close ends the connection. Closing again does nothing.
func (c *Conn) Close() {
	c.closing.Do(func() {
		close(c.closed)
		_ = c.nc.Close()
	})
}

// Closed is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Wait waits, once the connection is closed, until nothing is held back any more.
func (c *Conn) Wait() {
	if c.delayed != nil {
		<-c.delayDone
	}
}
