package couchbasetest

import (
	"encoding/binary"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
)

func (c *conn) lookupIn(req *memd.Packet) error {
	if len(req.Extras) > 1 {
		return c.fail(req, memd.StatusInvalidArgs, "a lookup has document flags only")
	}
	var docFlags memd.SubdocDocFlag
	if len(req.Extras) == 1 {
		docFlags = memd.SubdocDocFlag(req.Extras[0])
	}
	r := checkDocFlags(req, docFlags)
	if r == nil {
		r = c.parseSpecs(req.Value, false, docFlags)
	}
	if r != nil {
		return c.fail(req, r.status, r.why)
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	t.vb.mu.Lock()
	d := t.vb.live(req.CollectionID, req.Key, t.now)
	hlc := hlcTime{}
	hlc.seconds, hlc.mode = t.vb.hlc(t.now)
	t.vb.mu.Unlock()
	if d == nil {
		return c.reply(req, memd.StatusKeyNotFound, 0, nil, nil, 0)
	}
	cas := d.readCAS(t.now)
	if req.Cas != 0 && req.Cas != cas {
		return c.reply(req, memd.StatusKeyExists, 0, nil, nil, 0)
	}

	view := virtual{doc: d, cas: cas, vbucket: t.vb, hlc: hlc}
	status := memd.StatusSuccess
	body := c.body[:0]
	for i := range c.specs {
		at := len(body)
		body = append(body, 0, 0, 0, 0, 0, 0) // status and length
		var st memd.StatusCode
		if body, st = c.lookup(body, &c.specs[i], d, &view); st != memd.StatusSuccess {
			body = body[:at+6]
			status = memd.StatusSubDocBadMulti
		}
		binary.BigEndian.PutUint16(body[at:], uint16(st))
		binary.BigEndian.PutUint32(body[at+2:], uint32(len(body)-at-6))
	}
	c.keepScratch(body)
	return c.reply(req, status, cas, nil, body, 0)
}

// keepScratch keeps a buffer for the next request, unless it has grown too large.
func (c *conn) keepScratch(b []byte) {
	if cap(b) <= 64<<10 {
		c.body = b
	}
}

// lookup appends what one operation finds to out.
func (c *conn) lookup(out []byte, s *subdocSpec, d *document, view *virtual) ([]byte, memd.StatusCode) {
	if s.op == memd.SubDocOpGetDoc {
		if len(d.value) == 0 {
			return out, memd.StatusSubDocPathNotFound
		}
		return append(out, d.value...), memd.StatusSuccess
	}
	if s.op == memd.SubDocOpGet && string(s.raw) == "$document.exptime" {
		return appendExptime(out, d), memd.StatusSuccess // asked for with every read
	}
	if s.op == memd.SubDocOpGet && string(s.raw) == "$document.flags" {
		return appendUint(out, uint64(d.flags)), memd.StatusSuccess // and with overwrites
	}
	if status := c.parsePath(s); status != memd.StatusSuccess {
		return out, status
	}
	doc := d.value
	switch {
	case s.virtual():
		var status memd.StatusCode
		if doc, status = view.object(s.path[0].Name()); status != memd.StatusSuccess {
			return out, status
		}
	case s.xattr():
		if doc = d.xattrs; doc == nil {
			doc = emptyObject
		}
	case !d.json:
		return out, memd.StatusSubDocNotJSON
	}
	found, status := jsonpath.Find(doc, s.path)
	if status != memd.StatusSuccess {
		return out, status
	}
	switch s.op {
	case memd.SubDocOpExists:
	case memd.SubDocOpGetCount:
		n, ok := jsonpath.Count(found)
		if !ok {
			return out, memd.StatusSubDocPathMismatch
		}
		out = appendUint(out, uint64(n))
	default:
		out = append(out, found...)
	}
	return out, memd.StatusSuccess
}
