package couchbasetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/xdg-go/scram"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/wire"
)

const (
	// maxDocument is the largest value of a document (its max_item_size).
	maxDocument = 20 << 20
	// maxKey is the longest key of a document in the default collection,
	// maxCollectionKey in any other, in bytes (kv_engine, dockey_view.h).
	maxKey           = 250
	maxCollectionKey = 246
)

// conn is one client connection. The goroutine that runs serve executes its
// requests in order.
type conn struct {
	*wire.Conn
	node *Node
	log  *slog.Logger

	// The fields below belong to serve's goroutine.
	features  [256]bool
	authed    bool
	login     *scram.ServerConversation // that is under way
	mechanism string                    // of login
	bucket    *bucket
	configRev uint64 // the last that this client was sent
	discard   bool   // drop the next response, see Fault.Applied
	keep      bool   // keep the next response in kept, see Node.Between
	kept      []memd.Packet
	began     time.Time // when the request under way was read; zero: the client does not ask
	took      memd.ServerDurationFrame
	released  <-chan struct{} // closed when the response may be sent, see Node.Hold; nil: it may
	res       memd.Packet
	extras    [24]byte
	body      []byte // scratch for sub-document responses
	specs     []subdocSpec
	pathElems []jsonpath.Elem
	scans     map[[16]byte]*rangeScan
}

func newConn(n *Node, nc io.ReadWriteCloser) *conn {
	return &conn{Conn: wire.New(nc), node: n, log: n.log.With("conn", n.nextConnID.Add(1))}
}

// serve answers requests until the connection ends.
func (c *conn) serve() {
	err := c.serveAll()
	var malformed *wire.MalformedError
	if errors.As(err, &malformed) {
		c.log.Warn("malformed packet, connection ended", "err", malformed.Err)
	} else {
		c.log.Debug("connection ended", "err", err)
	}
	c.HangUp()
	c.Wait()
}

// errDropped ends a connection on a test's demand.
var errDropped = errors.New("dropped")

func (c *conn) serveAll() error {
	for {
		op, err := c.Next()
		if err != nil {
			return err
		}
		if c.features[memd.FeatureDurations] {
			c.began = time.Now()
		}
		if err := c.node.faults.waitWhileHanging(c.Closed()); err != nil {
			return err
		}
		c.released = c.node.faults.holding.closedByRelease()
		if err := c.answer(op); err != nil {
			return err
		}
	}
}

// answer answers the next request.
func (c *conn) answer(op memd.CmdCode) error {
	h := handlers[op]
	if h == nil {
		opaque, err := c.Skip()
		if err != nil {
			return err
		}
		req := memd.Packet{Command: op, Opaque: opaque}
		return c.fail(&req, memd.StatusUnknownCommand, fmt.Sprintf("couchbasetest does not know command %#02x", uint8(op)))
	}
	req, err := c.Read()
	if err != nil {
		return err
	}
	defer memd.ReleasePacket(req)
	return c.handle(h, req)
}

// handler answers a command.
type handler struct {
	serve func(*conn, *memd.Packet) error
	// data marks an operation on documents: it needs a bucket, is counted, and
	// can be made to fail.
	data bool
	// open marks a command that may come before the login.
	open bool
	// keyless marks an operation on a vbucket, which carries no key.
	keyless bool
	// value marks an operation whose value may have a datatype.
	value bool
	// durable marks an operation that takes a durability requirement.
	durable bool
	// preserve marks an operation that takes the frame that preserves the expiry.
	preserve bool
}

func (c *conn) handle(h *handler, req *memd.Packet) error {
	if h.data {
		// The fault comes first: after Await of the count, a test must find it used up.
		f, struck := c.node.faults.strike(req.Command)
		c.node.counts.op(req.Command)
		if struck {
			return c.suffer(f, h, req)
		}
		if between := c.node.faults.between.Load(); between != nil {
			return c.between(*between, h, req)
		}
	}
	return c.carryOut(h, req)
}

// suffer answers a request as a fault demands.
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

// between calls f, which executes a request, and then answers as f returns.
func (c *conn) between(f func(Op, func()) Fault, h *handler, req *memd.Packet) (err error) {
	c.keep, c.kept = true, c.kept[:0]
	then := f(req.Command, func() { err = c.carryOut(h, req) })
	c.keep = false
	switch {
	case err != nil:
		return err
	case then.Drop:
		return errDropped
	case then.Silent:
		return nil
	}
	for i := range c.kept {
		if err := c.Write(&c.kept[i], time.Duration(c.node.latency.Load()), c.released); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) carryOut(h *handler, req *memd.Packet) error {
	switch {
	case !h.open && !c.authed:
		return c.fail(req, memd.StatusAccessError, "not authenticated")
	case h.data && c.bucket == nil:
		return c.fail(req, memd.StatusNoBucket, "no bucket selected")
	case h.data && int(req.Vbucket) >= numVBuckets:
		return c.reply(req, memd.StatusNotMyVBucket, 0, nil, c.node.bucketConfig(c.bucket, lastConfigRev), memd.DatatypeFlagJSON)
	case h.keyless && len(req.Key) > 0:
		return c.fail(req, memd.StatusInvalidArgs, "this command has no key")
	case h.data && !h.keyless && (len(req.Key) == 0 || len(req.Key) > longestKey(req.CollectionID)):
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

func (c *conn) checkFrameUse(h *handler, req *memd.Packet) (memd.StatusCode, string) {
	switch {
	case len(req.UnsupportedFrames) > 0:
		return wire.StatusUnknownFrame, "unknown framing extras"
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
	if c.keep {
		c.res.Extras, c.res.Value = slices.Clone(extras), slices.Clone(value)
		c.kept = append(c.kept, c.res)
		return nil
	}
	return c.Write(&c.res, time.Duration(c.node.latency.Load()), c.released)
}

// fail answers req with an error and, if the client takes it, a text with the
// reason: gocb shows it as the error's context.
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
