package couchbasetest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/couchbase/gocbcore/v10/memd"
)

// Range scans list the keys, or the documents, of one collection in one vbucket: create
// fixes the list, continue returns it in the order of keys, cancel ends it. Sources:
// kv_engine, docs/range_scans; gocbcore v10.8.1, crudcomponent_rangescan.go.

// rangeScan is a scan that was created and has more. It belongs to its connection.
type rangeScan struct {
	vbucket    uint16
	collection uint32
	keysOnly   bool
	left       []string // the remaining keys, as of the creation
}

// scanPacket is about how many bytes go into one packet of an answer, which may have
// several.
const scanPacket = 8 << 10

type scanRequest struct {
	Collection string `json:"collection"`
	KeyOnly    bool   `json:"key_only"`
	Range      *struct {
		Start     *[]byte `json:"start"` // base64, as encoding/json has it
		ExclStart *[]byte `json:"excl_start"`
		End       *[]byte `json:"end"`
		ExclEnd   *[]byte `json:"excl_end"`
	} `json:"range"`
	Snapshot *struct {
		VbUUID string `json:"vb_uuid"`
		SeqNo  uint64 `json:"seqno"`
	} `json:"snapshot_requirements"`
}

// takes reports whether key is within the range.
func (r *scanRequest) takes(key []byte) bool {
	s := r.Range
	switch {
	case s.Start != nil && bytes.Compare(key, *s.Start) < 0:
	case s.ExclStart != nil && bytes.Compare(key, *s.ExclStart) <= 0:
	case s.End != nil && bytes.Compare(key, *s.End) > 0:
	case s.ExclEnd != nil && bytes.Compare(key, *s.ExclEnd) >= 0:
	default:
		return true
	}
	return false
}

func (r *scanRequest) valid() bool {
	s := r.Range
	return s != nil && (s.Start == nil) != (s.ExclStart == nil) && (s.End == nil) != (s.ExclEnd == nil)
}

func (c *conn) createRangeScan(req *memd.Packet) error {
	var r scanRequest
	if len(req.Extras) > 0 || json.Unmarshal(req.Value, &r) != nil || !r.valid() {
		return c.fail(req, memd.StatusInvalidArgs, "a range scan is JSON with a range")
	}
	id := uint64(defaultCollectionID)
	if r.Collection != "" {
		var err error
		if id, err = strconv.ParseUint(r.Collection, 16, 32); err != nil {
			return c.fail(req, memd.StatusInvalidArgs, "the collection must be a hexadecimal id")
		}
	}
	req.CollectionID = uint32(id)
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	scan := &rangeScan{vbucket: req.Vbucket, collection: uint32(id), keysOnly: r.KeyOnly}
	t.vb.mu.Lock()
	uuid, seqno := t.vb.uuid, t.vb.seqno
	for k, d := range t.vb.docs {
		if k.collection == scan.collection && !d.expired(t.second()) {
			scan.left = append(scan.left, k.key)
		}
	}
	t.vb.mu.Unlock()
	if s := r.Snapshot; s != nil {
		switch {
		case s.VbUUID != strconv.FormatUint(uuid, 10):
			return c.reply(req, memd.StatusRangeScanVbUUIDNotEqual, 0, nil, nil, 0)
		case s.SeqNo > seqno:
			return c.reply(req, memd.StatusTmpFail, 0, nil, nil, 0)
		}
	}
	slices.Sort(scan.left)
	scan.left = slices.DeleteFunc(scan.left, func(key string) bool { return !r.takes([]byte(key)) })
	if len(scan.left) == 0 {
		return c.reply(req, memd.StatusKeyNotFound, 0, nil, nil, 0)
	}
	name := [16]byte(randomBytes(16))
	if c.scans == nil {
		c.scans = make(map[[16]byte]*rangeScan)
	}
	c.scans[name] = scan
	return c.reply(req, memd.StatusSuccess, 0, nil, name[:], 0)
}

func (c *conn) continueRangeScan(req *memd.Packet) error {
	if len(req.Extras) != 28 || len(req.Value) > 0 {
		return c.fail(req, memd.StatusInvalidArgs, "a range scan goes on by its id and three limits")
	}
	name := [16]byte(req.Extras[:16])
	mostItems := int(binary.BigEndian.Uint32(req.Extras[16:]))
	mostBytes := int(binary.BigEndian.Uint32(req.Extras[24:])) // the limit of time is never reached
	scan := c.scans[name]
	if scan == nil || scan.vbucket != req.Vbucket {
		return c.reply(req, memd.StatusKeyNotFound, 0, nil, nil, 0)
	}
	kind := uint32(1)
	if scan.keysOnly {
		kind = 0
	}
	var body []byte
	send := func(status memd.StatusCode) error {
		var extras [4]byte
		binary.BigEndian.PutUint32(extras[:], kind)
		err := c.reply(req, status, 0, extras[:], body, 0)
		body = nil
		return err
	}
	sent := 0
	for n := 0; len(scan.left) > 0; n++ {
		if n > 0 && (mostItems > 0 && n >= mostItems || mostBytes > 0 && sent+len(body) >= mostBytes) {
			return send(memd.StatusRangeScanMore)
		}
		if len(body) >= scanPacket {
			sent += len(body)
			if err := send(memd.StatusSuccess); err != nil {
				return err
			}
		}
		body = c.appendScanned(body, scan, scan.left[0])
		scan.left = scan.left[1:]
	}
	delete(c.scans, name)
	return send(memd.StatusRangeScanComplete)
}

// appendScanned appends a key, or a document that is still there.
func (c *conn) appendScanned(body []byte, scan *rangeScan, key string) []byte {
	if scan.keysOnly {
		return append(binary.AppendUvarint(body, uint64(len(key))), key...)
	}
	vb := &c.bucket.vbuckets[scan.vbucket]
	vb.mu.Lock()
	d := vb.live(scan.collection, []byte(key), c.node.clock.now())
	vb.mu.Unlock()
	if d == nil {
		return body
	}
	body = binary.BigEndian.AppendUint32(body, d.flags)
	body = binary.BigEndian.AppendUint32(body, d.expiry)
	body = binary.BigEndian.AppendUint64(body, d.seqno)
	body = binary.BigEndian.AppendUint64(body, d.cas)
	datatype := memd.DatatypeFlag(0)
	if d.json {
		datatype = memd.DatatypeFlagJSON
	}
	body = append(body, byte(datatype))
	body = append(binary.AppendUvarint(body, uint64(len(key))), key...)
	return append(binary.AppendUvarint(body, uint64(len(d.value))), d.value...)
}

func (c *conn) cancelRangeScan(req *memd.Packet) error {
	if len(req.Extras) != 16 || len(req.Value) > 0 {
		return c.fail(req, memd.StatusInvalidArgs, "a range scan is cancelled by its id")
	}
	name := [16]byte(req.Extras)
	if scan := c.scans[name]; scan == nil || scan.vbucket != req.Vbucket {
		return c.reply(req, memd.StatusKeyNotFound, 0, nil, nil, 0)
	}
	delete(c.scans, name)
	return c.reply(req, memd.StatusSuccess, 0, nil, nil, 0)
}
