package couchbasetest

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/golang/snappy"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/wire"
)

// lockedCAS is what a read answers instead of the CAS of a locked document.
const lockedCAS = math.MaxUint64

// Lock times of get-and-lock, in seconds, as on the server.
const (
	defaultLockTime = 15
	maxLockTime     = 30
)

// target is a request's document.
type target struct {
	vb         *vbucket
	collection *collection
	maxTTL     uint32
	now        int64 // Unix nanoseconds
}

// find finds the target of req, or answers that there is none.
func (c *conn) find(req *memd.Packet) (t target, m *manifest, ok bool) {
	m = c.bucket.manifest.Load()
	col := m.byID[req.CollectionID]
	if col == nil {
		return t, m, false
	}
	return target{
		vb:         &c.bucket.vbuckets[req.Vbucket],
		collection: col,
		maxTTL:     m.ttl(col),
		now:        c.node.clock.now(),
	}, m, true
}

func (t *target) second() int64 { return t.now / 1e9 }

// expiry returns the expiry of a document for which asked is requested, see absoluteExpiry.
func (t *target) expiry(asked uint32) (uint32, bool) {
	e, ok := absoluteExpiry(asked, t.second())
	return capExpiry(e, t.maxTTL, t.second()), ok
}

// mutationToken is the extras of an answer to a mutation, where the client wants
// them.
func (c *conn) mutationToken(vb *vbucket, seqno uint64) []byte {
	if !c.features[memd.FeatureSeqNo] {
		return nil
	}
	binary.BigEndian.PutUint64(c.extras[:], vb.uuid)
	binary.BigEndian.PutUint64(c.extras[8:], seqno)
	return c.extras[:16]
}

func (c *conn) mutated(req *memd.Packet, t *target, cas, seqno uint64, value []byte) error {
	c.node.counts.mutation()
	return c.reply(req, memd.StatusSuccess, cas, c.mutationToken(t.vb, seqno), value, 0)
}

// replyDocument answers with a document: in snappy if it was sent so and this client
// takes it, like the server's passive compression.
func (c *conn) replyDocument(req *memd.Packet, d *document, cas uint64) error {
	binary.BigEndian.PutUint32(c.extras[:], d.flags)
	value, datatype := d.value, memd.DatatypeFlag(0)
	if d.json {
		datatype = memd.DatatypeFlagJSON
	}
	if d.packed != nil && c.features[memd.FeatureSnappy] {
		value, datatype = d.packed, datatype|memd.DatatypeFlagCompressed
	}
	return c.reply(req, memd.StatusSuccess, cas, c.extras[:4], value, datatype)
}

// lockStatus returns the status of an operation that a lock prevents.
func (c *conn) lockStatus() memd.StatusCode {
	if c.features[memd.FeatureXerror] {
		return memd.StatusLocked
	}
	return memd.StatusTmpFail
}

func (c *conn) get(req *memd.Packet) error {
	if len(req.Extras) != 0 || len(req.Value) != 0 || req.Cas != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "get has a key only")
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	t.vb.mu.Lock()
	d := t.vb.live(req.CollectionID, req.Key, t.now)
	t.vb.mu.Unlock()
	if d == nil {
		return c.reply(req, memd.StatusKeyNotFound, 0, nil, nil, 0)
	}
	return c.replyDocument(req, d, d.readCAS(t.now))
}

// getAndTouch serves get-and-touch and touch, which differ in their answer.
func (c *conn) getAndTouch(req *memd.Packet) error {
	if len(req.Extras) != 4 || len(req.Value) != 0 || req.Cas != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "touch has a key and an expiry only")
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	expiry, ok := t.expiry(binary.BigEndian.Uint32(req.Extras))
	if !ok {
		return c.fail(req, wire.StatusExpiryOverflow, "the expiry does not fit into 32 bits")
	}
	d, changed, status := c.touch(req, &t, expiry)
	if status != memd.StatusSuccess {
		return c.reply(req, status, 0, nil, nil, 0)
	}
	if changed {
		c.node.counts.mutation()
	}
	if req.Command == memd.CmdTouch {
		return c.reply(req, memd.StatusSuccess, d.cas, nil, nil, 0)
	}
	return c.replyDocument(req, d, d.cas)
}

// touch sets the expiry of a document. An unchanged expiry is no mutation
// (kv_engine, VBucket::processGetAndUpdateTtl).
func (c *conn) touch(req *memd.Packet, t *target, expiry uint32) (d *document, changed bool, status memd.StatusCode) {
	t.vb.mu.Lock()
	defer t.vb.mu.Unlock()
	old := t.vb.live(req.CollectionID, req.Key, t.now)
	switch {
	case old == nil:
		return nil, false, memd.StatusKeyNotFound
	case old.locked(t.now):
		return nil, false, c.lockStatus()
	case old.expiry == expiry:
		return old, false, memd.StatusSuccess
	}
	next := *old
	next.expiry = expiry
	t.vb.put(req.CollectionID, req.Key, old, &next, t.now)
	return &next, true, memd.StatusSuccess
}

func (c *conn) getAndLock(req *memd.Packet) error {
	if n := len(req.Extras); (n != 0 && n != 4) || len(req.Value) != 0 || req.Cas != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "get-and-lock has a key and a lock time only")
	}
	seconds := uint32(defaultLockTime)
	if len(req.Extras) == 4 {
		// A value out of range means the default, as on the server.
		if s := binary.BigEndian.Uint32(req.Extras); s > 0 && s <= maxLockTime {
			seconds = s
		}
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	d, status := c.lock(req, &t, seconds)
	if status != memd.StatusSuccess {
		return c.reply(req, status, 0, nil, nil, 0)
	}
	return c.replyDocument(req, d, d.lockCAS)
}

func (c *conn) lock(req *memd.Packet, t *target, seconds uint32) (*document, memd.StatusCode) {
	t.vb.mu.Lock()
	defer t.vb.mu.Unlock()
	old := t.vb.live(req.CollectionID, req.Key, t.now)
	switch {
	case old == nil:
		return nil, memd.StatusKeyNotFound
	case old.locked(t.now):
		return nil, c.lockStatus()
	}
	// A lock is no mutation: it and its CAS live in memory only.
	next := *old
	next.lockedUntil = t.now + int64(seconds)*1e9
	next.lockCAS = t.vb.nextCAS(t.now)
	t.vb.docs[docKey{req.CollectionID, string(req.Key)}] = &next
	return &next, memd.StatusSuccess
}

func (c *conn) unlock(req *memd.Packet) error {
	if len(req.Extras) != 0 || len(req.Value) != 0 || req.Cas == 0 {
		return c.fail(req, memd.StatusInvalidArgs, "unlock has a key and a CAS only")
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	t.vb.mu.Lock()
	status := memd.StatusSuccess
	switch old := t.vb.live(req.CollectionID, req.Key, t.now); {
	case old == nil:
		status = memd.StatusKeyNotFound
	case !old.locked(t.now):
		status = memd.StatusTmpFail
		if c.features[memd.FeatureXerror] {
			status = memd.StatusNotLocked
		}
	case old.lockCAS != req.Cas:
		status = c.lockStatus()
	default:
		next := *old
		next.lockedUntil = 0
		t.vb.docs[docKey{req.CollectionID, string(req.Key)}] = &next
	}
	t.vb.mu.Unlock()
	return c.reply(req, status, 0, nil, nil, 0)
}

// getMeta answers with a document's metadata. gocb uses it to ask whether the document
// exists.
func (c *conn) getMeta(req *memd.Packet) error {
	if len(req.Extras) > 1 || len(req.Value) != 0 || req.Cas != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "get-meta has a key and a version only")
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	t.vb.mu.Lock()
	d := t.vb.live(req.CollectionID, req.Key, t.now)
	t.vb.mu.Unlock()
	if d == nil {
		return c.reply(req, memd.StatusKeyNotFound, 0, nil, nil, 0)
	}
	e := c.extras[:21]
	binary.BigEndian.PutUint32(e, 0) // not deleted
	binary.BigEndian.PutUint32(e[4:], d.flags)
	binary.BigEndian.PutUint32(e[8:], d.expiry)
	binary.BigEndian.PutUint64(e[12:], d.seqno)
	e[20] = uint8(d.datatype())
	if len(req.Extras) == 0 || req.Extras[0] != 2 {
		e = e[:20] // version 1 has no datatype
	}
	return c.reply(req, memd.StatusSuccess, d.readCAS(t.now), e, nil, 0)
}

func (d *document) datatype() memd.DatatypeFlag {
	var f memd.DatatypeFlag
	if d.json {
		f |= memd.DatatypeFlagJSON
	}
	if d.packed != nil {
		f |= memd.DatatypeFlagCompressed
	}
	if d.xattrs != nil {
		f |= memd.DatatypeFlagXattrs
	}
	return f
}

// inflate returns the value of a request to be stored and, if it came in snappy, the
// compressed form too.
func inflate(req *memd.Packet) (value, packed []byte, status memd.StatusCode) {
	value = req.Value
	if memd.DatatypeFlag(req.Datatype)&memd.DatatypeFlagCompressed != 0 {
		n, err := snappy.DecodedLen(req.Value)
		if err != nil {
			return nil, nil, memd.StatusInvalidArgs
		}
		if n > maxDocument {
			return nil, nil, memd.StatusTooBig
		}
		if value, err = snappy.Decode(nil, req.Value); err != nil {
			return nil, nil, memd.StatusInvalidArgs
		}
		packed = req.Value
	}
	if len(value) > maxDocument {
		return nil, nil, memd.StatusTooBig
	}
	return value, packed, memd.StatusSuccess
}

// store serves set, add and replace.
func (c *conn) store(req *memd.Packet) error {
	if len(req.Extras) != 8 {
		return c.fail(req, memd.StatusInvalidArgs, "a store has flags and an expiry")
	}
	if req.Command == memd.CmdAdd && req.Cas != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "an add has no CAS")
	}
	value, packed, status := inflate(req)
	if status != memd.StatusSuccess {
		return c.fail(req, status, "")
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	expiry, ok := t.expiry(binary.BigEndian.Uint32(req.Extras[4:]))
	if !ok {
		return c.fail(req, wire.StatusExpiryOverflow, "the expiry does not fit into 32 bits")
	}
	next := &document{
		value:  value,
		packed: packed,
		flags:  binary.BigEndian.Uint32(req.Extras),
		expiry: expiry,
		json:   json.Valid(value),
	}
	if status := c.replaceDocument(req, &t, next); status != memd.StatusSuccess {
		return c.reply(req, status, 0, nil, nil, 0)
	}
	return c.mutated(req, &t, next.cas, next.seqno, nil)
}

// replaceDocument puts next in its place if the command and the CAS allow it.
// The extended attributes of a living document stay (kv_engine,
// MutationCommandContext::getExistingItemToPreserveXattr).
func (c *conn) replaceDocument(req *memd.Packet, t *target, next *document) memd.StatusCode {
	t.vb.mu.Lock()
	defer t.vb.mu.Unlock()
	old := t.vb.live(req.CollectionID, req.Key, t.now)
	if old == nil {
		if req.Command == memd.CmdReplace || req.Cas != 0 {
			return memd.StatusKeyNotFound
		}
	} else {
		if req.Command == memd.CmdAdd {
			return memd.StatusKeyExists
		}
		if status := c.checkCAS(req, old, t.now); status != memd.StatusSuccess {
			return status
		}
		next.xattrs = old.xattrs
		if req.PreserveExpiryFrame != nil {
			next.expiry = old.expiry
		}
		if next.xattrs != nil {
			next.packed = nil // the server keeps both as one value, inflated
		}
	}
	t.vb.put(req.CollectionID, req.Key, old, next, t.now)
	return memd.StatusSuccess
}

// checkCAS reports whether a mutation of d is allowed (kv_engine,
// VBucket::checkCasForWrite).
func (c *conn) checkCAS(req *memd.Packet, d *document, now int64) memd.StatusCode {
	switch {
	case d.locked(now):
		if req.Cas == d.lockCAS {
			return memd.StatusSuccess
		}
		return c.lockStatus()
	case req.Cas != 0 && req.Cas != d.cas:
		return memd.StatusKeyExists
	default:
		return memd.StatusSuccess
	}
}

func (c *conn) remove(req *memd.Packet) error {
	if len(req.Extras) != 0 || len(req.Value) != 0 {
		return c.fail(req, memd.StatusInvalidArgs, "a delete has a key and a CAS only")
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	cas, seqno, status := c.removeDocument(req, &t)
	if status != memd.StatusSuccess {
		return c.reply(req, status, 0, nil, nil, 0)
	}
	return c.mutated(req, &t, cas, seqno, nil)
}

func (c *conn) removeDocument(req *memd.Packet, t *target) (cas, seqno uint64, status memd.StatusCode) {
	t.vb.mu.Lock()
	defer t.vb.mu.Unlock()
	old := t.vb.live(req.CollectionID, req.Key, t.now)
	if old == nil {
		return 0, 0, memd.StatusKeyNotFound
	}
	if status := c.checkCAS(req, old, t.now); status != memd.StatusSuccess {
		return 0, 0, status
	}
	return t.vb.remove(req.CollectionID, req.Key, t.now), t.vb.seqno, memd.StatusSuccess
}
