package couchbasetest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
)

const (
	headerLen = 24

	// Magic bytes of requests: plain, and with framing extras. The codec knows
	// the second but does not export it.
	magicRequest    = byte(memd.CmdMagicReq)
	magicRequestExt = 0x08

	// maxPacket is the largest body the server takes (its max_packet_size).
	maxPacket = 30 << 20
	// maxDocument is the largest value of a document (its max_item_size).
	maxDocument = 20 << 20
	// maxKey is the longest key of a document in the default collection,
	// maxCollectionKey in any other, in bytes (kv_engine, dockey_view.h).
	maxKey           = 250
	maxCollectionKey = 246

	bufferSize = 16 << 10
)

// conn is one client connection. Its requests are carried out one after the
// other, in the order they came in, by the goroutine that runs serve.
type conn struct {
	node *Node
	nc   io.ReadWriteCloser
	log  *slog.Logger

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

	closing   sync.Once
	closed    chan struct{}
	malformed error // why serve ended the connection, if the client is to blame

	// What follows belongs to serve's goroutine.
	features  [256]bool
	authed    bool
	exchange  *scramExchange // a SCRAM login that is under way
	bucket    *bucket
	configRev uint64    // the last that this client was sent
	discard   bool      // the next response is to be thrown away, see Fault.Applied
	began     time.Time // when the request under way was read; zero: the client does not ask
	took      memd.ServerDurationFrame
	res       memd.Packet
	extras    [24]byte
	body      []byte // scratch for sub-document responses
	specs     []subdocSpec
	pathElems []jsonpath.Elem
}

func newConn(n *Node, nc io.ReadWriteCloser) *conn {
	c := &conn{
		node:   n,
		nc:     nc,
		log:    n.log.With("conn", n.nextConnID.Add(1)),
		closed: make(chan struct{}),
	}
	c.br = bufio.NewReaderSize(flushBeforeRead{c}, bufferSize)
	c.bw = bufio.NewWriterSize(nc, bufferSize)
	c.in = memd.NewConn(bufio.NewReadWriter(c.br, nil))
	c.out = memd.NewConn(bufio.NewReadWriter(nil, c.bw))
	return c
}

// flushBeforeRead sends what has been answered so far whenever the connection
// has to wait for more to do: pipelined requests share a write.
type flushBeforeRead struct{ c *conn }

func (r flushBeforeRead) Read(p []byte) (int, error) {
	r.c.wmu.Lock()
	err := r.c.bw.Flush()
	r.c.wmu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.c.nc.Read(p)
}

// close ends the connection from any goroutine.
func (c *conn) close() {
	c.closing.Do(func() {
		close(c.closed)
		_ = c.nc.Close()
	})
}

// serve answers requests until the connection ends.
func (c *conn) serve() {
	err := c.serveAll()
	if c.malformed != nil {
		c.log.Warn("malformed packet, connection ended", "err", c.malformed)
	} else {
		c.log.Debug("connection ended", "err", err)
	}
	c.close()
	if c.delayed != nil {
		<-c.delayDone
	}
}

// errDropped ends a connection on a test's demand.
var errDropped = errors.New("dropped")

func (c *conn) serveAll() error {
	for {
		header, err := c.br.Peek(headerLen)
		if err != nil {
			return err
		}
		if err := c.checkHeader(header); err != nil {
			c.malformed = err
			return err
		}
		op := memd.CmdCode(header[1])
		if c.features[memd.FeatureDurations] {
			c.began = time.Now()
		}
		if err := c.node.faults.waitWhileHanging(c.closed); err != nil {
			return err
		}
		h := handlers[op]
		if h == nil {
			// Answered from the header alone: the codec refuses some of them.
			if err := c.skipUnknown(header); err != nil {
				return err
			}
			continue
		}
		req, _, err := c.in.ReadPacket()
		if err != nil {
			if !isNetworkError(err) {
				c.malformed = err
			}
			return err
		}
		err = c.handle(h, req)
		memd.ReleasePacket(req)
		if err != nil {
			return err
		}
	}
}

func isNetworkError(err error) bool {
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &ne)
}

// checkHeader refuses what the codec would trust: it takes lengths as they come,
// allocates what they ask for and indexes with them.
func (c *conn) checkHeader(h []byte) error {
	magic := h[0]
	if magic != magicRequest && magic != magicRequestExt {
		return fmt.Errorf("magic %#02x is not a request's", magic)
	}
	bodyLen := int64(binary.BigEndian.Uint32(h[8:]))
	if bodyLen > maxPacket {
		return fmt.Errorf("body of %d bytes, at most %d are allowed", bodyLen, maxPacket)
	}
	frames, key := 0, int(binary.BigEndian.Uint16(h[2:]))
	if magic == magicRequestExt {
		frames, key = int(h[2]), int(h[3])
	}
	if need := int64(frames + key + int(h[4])); need > bodyLen {
		return fmt.Errorf("framing extras, extras and key of %d bytes in a body of %d", need, bodyLen)
	}
	if frames == 0 {
		return nil
	}
	b, err := c.br.Peek(headerLen + frames)
	if err != nil {
		return err
	}
	return checkFrames(b[headerLen:])
}

// checkFrames walks framing extras: a byte of two nibbles, identifier and
// length, either of which may continue in a byte of its own.
func checkFrames(b []byte) error {
	for i := 0; i < len(b); {
		id, n := b[i]>>4, int(b[i]&0xf)
		i++
		if id == 15 {
			i++
		}
		if n == 15 {
			if i >= len(b) {
				return errors.New("framing extras cut short")
			}
			n += int(b[i])
			i++
		}
		if i += n; i > len(b) {
			return errors.New("framing extras cut short")
		}
	}
	return nil
}

func (c *conn) skipUnknown(header []byte) error {
	req := memd.Packet{Command: memd.CmdCode(header[1]), Opaque: binary.BigEndian.Uint32(header[12:])}
	if _, err := c.br.Discard(headerLen + int(binary.BigEndian.Uint32(header[8:]))); err != nil {
		return err
	}
	return c.fail(&req, memd.StatusUnknownCommand, fmt.Sprintf("couchbasetest does not know command %#02x", uint8(req.Command)))
}

// handler is how a command is answered.
type handler struct {
	serve func(*conn, *memd.Packet) error
	// data marks an operation on documents: it needs a bucket, is counted, and
	// can be made to fail.
	data bool
	// open marks what may come before the login.
	open bool
	// value marks what may carry a datatype with its value.
	value bool
	// durable marks what takes a durability requirement.
	durable bool
	// preserve marks what takes the frame that preserves the expiry.
	preserve bool
}

func (c *conn) handle(h *handler, req *memd.Packet) error {
	if h.data {
		c.node.counts.op(req.Command)
		if f, ok := c.node.faults.strike(req.Command); ok {
			return c.suffer(f, h, req)
		}
	}
	return c.carryOut(h, req)
}

// suffer answers a request as a fault wants it.
func (c *conn) suffer(f Fault, h *handler, req *memd.Packet) error {
	if f.Applied {
		c.discard = true
		err := c.carryOut(h, req)
		c.discard = false
		if err != nil {
			return err
		}
	}
	switch {
	case f.Drop:
		return errDropped
	case f.Silent:
		return nil
	default:
		return c.fail(req, f.Status, "injected by the test")
	}
}

func (c *conn) carryOut(h *handler, req *memd.Packet) error {
	switch {
	case !h.open && !c.authed:
		return c.fail(req, memd.StatusAccessError, "not authenticated")
	case h.data && c.bucket == nil:
		return c.fail(req, memd.StatusNoBucket, "no bucket selected")
	case h.data && int(req.Vbucket) >= numVBuckets:
		return c.reply(req, memd.StatusNotMyVBucket, 0, nil, c.node.bucketConfig(c.bucket, lastConfigRev), memd.DatatypeFlagJSON)
	case h.data && (len(req.Key) == 0 || len(req.Key) > longestKey(req.CollectionID)):
		return c.fail(req, memd.StatusInvalidArgs, "the key must have 1 to 250 bytes, 246 outside the default collection")
	}
	if status, why := c.checkFrameUse(h, req); status != memd.StatusSuccess {
		return c.fail(req, status, why)
	}
	if dt := memd.DatatypeFlag(req.Datatype); dt != 0 {
		allowed := memd.DatatypeFlag(0)
		if h.value && c.features[memd.FeatureJSON] {
			allowed |= memd.DatatypeFlagJSON
		}
		if h.value && c.features[memd.FeatureSnappy] {
			allowed |= memd.DatatypeFlagCompressed
		}
		if dt&^allowed != 0 {
			return c.fail(req, memd.StatusInvalidArgs, "datatype was not negotiated")
		}
	}
	return h.serve(c, req)
}

func longestKey(collection uint32) int {
	if collection == defaultCollectionID {
		return maxKey
	}
	return maxCollectionKey
}

// statusUnknownFrame is the server's, unknown to the codec.
const statusUnknownFrame = memd.StatusCode(0x80)

func (c *conn) checkFrameUse(h *handler, req *memd.Packet) (memd.StatusCode, string) {
	switch {
	case len(req.UnsupportedFrames) > 0:
		return statusUnknownFrame, "unknown framing extras"
	case req.UserImpersonationFrame != nil:
		return memd.StatusNotSupported, "couchbasetest does not impersonate users"
	case req.StreamIDFrame != nil:
		return memd.StatusInvalidArgs, "only DCP has stream ids"
	case req.PreserveExpiryFrame != nil && !h.preserve:
		return memd.StatusNotSupported, "this command does not preserve an expiry"
	}
	if d := req.DurabilityLevelFrame; d != nil {
		switch {
		case !h.durable:
			return memd.StatusNotSupported, "this command has no durability level"
		case d.DurabilityLevel < memd.DurabilityLevelMajority || d.DurabilityLevel > memd.DurabilityLevelPersistToMajority:
			return memd.StatusDurabilityInvalidLevel, ""
		}
	}
	return memd.StatusSuccess, ""
}

// reply answers req. Extras and value may be reused once reply has returned.
func (c *conn) reply(req *memd.Packet, status memd.StatusCode, cas uint64, extras, value []byte, datatype memd.DatatypeFlag) error {
	if c.discard {
		return nil
	}
	c.res = memd.Packet{
		Magic:   memd.CmdMagicRes,
		Command: req.Command,
		Opaque:  req.Opaque,
		Status:  status,
		Cas:     cas,
		Extras:  extras,
		Value:   value,
	}
	if datatype&memd.DatatypeFlagJSON != 0 && c.features[memd.FeatureJSON] {
		c.res.Datatype |= uint8(memd.DatatypeFlagJSON)
	}
	c.res.Datatype |= uint8(datatype & memd.DatatypeFlagCompressed)
	if !c.began.IsZero() {
		c.took.ServerDuration = time.Since(c.began)
		c.res.ServerDurationFrame = &c.took
	}
	if d := time.Duration(c.node.latency.Load()); d > 0 || c.delayed != nil {
		return c.replyLater(d)
	}
	return c.write(&c.res)
}

func (c *conn) write(p *memd.Packet) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.out.WritePacket(p)
}

// fail answers req with an error and, where the client takes it, a text that
// says why: gocb shows it as the error's context.
func (c *conn) fail(req *memd.Packet, status memd.StatusCode, why string) error {
	if why == "" || !c.features[memd.FeatureXerror] || !c.features[memd.FeatureJSON] {
		return c.reply(req, status, 0, nil, nil, 0)
	}
	var body struct {
		Error struct {
			Context string `json:"context"`
		} `json:"error"`
	}
	body.Error.Context = why
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.reply(req, status, 0, nil, text, memd.DatatypeFlagJSON)
}

type delayedResponse struct {
	due    time.Time
	packet memd.Packet
}

// replyLater holds c.res back for d. Once a connection has held a response back,
// all later ones take the same way, so that they stay in order.
func (c *conn) replyLater(d time.Duration) error {
	if c.delayed == nil {
		// Room for as many as gocb sends ahead of the answers (its queue).
		c.delayed = make(chan delayedResponse, 2048)
		c.delayDone = make(chan struct{})
		go c.sendDelayed()
	}
	r := delayedResponse{due: time.Now().Add(d), packet: c.res}
	r.packet.Extras = slices.Clone(r.packet.Extras)
	r.packet.Value = slices.Clone(r.packet.Value)
	if r.packet.ServerDurationFrame != nil {
		took := c.took
		r.packet.ServerDurationFrame = &took
	}
	select {
	case c.delayed <- r:
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *conn) sendDelayed() {
	defer close(c.delayDone)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case r := <-c.delayed:
			timer.Reset(time.Until(r.due))
			select {
			case <-timer.C:
			case <-c.closed:
				return
			}
			if err := c.write(&r.packet); err != nil {
				c.close()
				return
			}
			if len(c.delayed) > 0 {
				continue
			}
			c.wmu.Lock()
			err := c.bw.Flush()
			c.wmu.Unlock()
			if err != nil {
				c.close()
				return
			}
		case <-c.closed:
			return
		}
	}
}
