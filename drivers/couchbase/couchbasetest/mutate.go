package couchbasetest

import (
	"encoding/binary"
	"encoding/json"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/wire"
)

var (
	emptyObject = []byte("{}")
	emptyArray  = []byte("[]")
)

// mutation is a sub-document mutation between its request and its answer.
type mutation struct {
	semantics memd.SubdocDocFlag // set, add, or neither: replace
	asked     uint32             // expiry
	userFlags *uint32

	removed  bool
	cas      uint64
	seqno    uint64
	results  []byte // as they are sent
	failedAt int
	failure  memd.StatusCode // of the operation failedAt
}

func (c *conn) mutateIn(req *memd.Packet) error {
	mu, r := parseMutation(req)
	if r == nil {
		r = c.parseSpecs(req.Value, true, mu.semantics)
	}
	if r != nil {
		return c.fail(req, r.status, r.why)
	}
	t, m, ok := c.find(req)
	if !ok {
		return c.failUnknown(req, memd.StatusCollectionUnknown, m)
	}
	status := c.mutate(req, &t, mu)
	switch {
	case status == memd.StatusSubDocBadMulti:
		body := append(c.body[:0], byte(mu.failedAt))
		body = binary.BigEndian.AppendUint16(body, uint16(mu.failure))
		c.keepScratch(body)
		return c.reply(req, status, 0, nil, body, 0)
	case status != memd.StatusSuccess:
		return c.reply(req, status, 0, nil, nil, 0)
	}
	return c.mutated(req, &t, mu.cas, mu.seqno, mu.results)
}

func parseMutation(req *memd.Packet) (*mutation, *refusal) {
	mu := &mutation{}
	e := req.Extras
	switch len(e) {
	case 0, 1, 4, 5, 8, 9:
	default:
		return nil, &refusal{memd.StatusInvalidArgs, "extras of a length that means nothing"}
	}
	if len(e)%4 == 1 {
		mu.semantics = memd.SubdocDocFlag(e[len(e)-1])
		e = e[:len(e)-1]
	}
	if len(e) >= 4 {
		mu.asked = binary.BigEndian.Uint32(e)
	}
	if len(e) == 8 {
		f := binary.BigEndian.Uint32(e[4:])
		mu.userFlags = &f
	}
	return mu, checkDocFlags(req, mu.semantics)
}

// mutate executes a mutation as a whole or not at all.
func (c *conn) mutate(req *memd.Packet, t *target, mu *mutation) memd.StatusCode {
	t.vb.mu.Lock()
	defer t.vb.mu.Unlock()
	old := t.vb.live(req.CollectionID, req.Key, t.now)

	next := &document{}
	asked := mu.asked
	if old == nil {
		if mu.semantics == 0 {
			return memd.StatusKeyNotFound
		}
		if req.Cas != 0 {
			return memd.StatusKeyNotFound
		}
		next.value = c.rootOfNew()
		next.json = next.value != nil
	} else {
		if mu.semantics&memd.SubdocDocFlagAddDoc != 0 {
			return memd.StatusKeyExists
		}
		if status := c.checkCAS(req, old, t.now); status != memd.StatusSuccess {
			return status
		}
		*next = *old
		next.packed = nil
		if req.PreserveExpiryFrame != nil {
			asked = old.expiry
		}
	}
	if mu.userFlags != nil {
		next.flags = *mu.userFlags
	}
	var ok bool
	if next.expiry, ok = t.expiry(asked); !ok {
		return wire.StatusExpiryOverflow
	}
	if status := c.editAll(t, old, next, mu); status != memd.StatusSuccess {
		return status
	}
	if len(next.value)+len(next.xattrs) > maxDocument {
		return memd.StatusTooBig
	}
	if mu.removed {
		mu.cas, mu.seqno = t.vb.remove(req.CollectionID, req.Key, t.now), t.vb.seqno
		return memd.StatusSuccess
	}
	t.vb.put(req.CollectionID, req.Key, old, next, t.now)
	mu.cas, mu.seqno = next.cas, next.seqno
	return memd.StatusSuccess
}

// rootOfNew returns the empty document with which operations on a new one begin: an
// array if the first of them appends to it, else an object; none if the request has the
// whole document.
func (c *conn) rootOfNew() []byte {
	for i := range c.specs {
		s := &c.specs[i]
		if s.wholeDoc() {
			continue
		}
		isPush := s.op == memd.SubDocOpArrayPushFirst || s.op == memd.SubDocOpArrayPushLast || s.op == memd.SubDocOpArrayAddUnique
		if isPush && len(s.raw) == 0 || len(s.raw) > 0 && s.raw[0] == '[' {
			return emptyArray
		}
		return emptyObject
	}
	return nil
}

// editAll applies all operations to next, first those on extended attributes.
func (c *conn) editAll(t *target, old, next *document, mu *mutation) memd.StatusCode {
	macros := macroValues{vb: t.vb, old: old, now: t.now}
	before, mkdirs := next.xattrs, mu.semantics != 0
	for i := range c.specs {
		if status := c.editOne(&c.specs[i], i, next, mu, mkdirs, &macros); status != memd.StatusSuccess {
			mu.failedAt, mu.failure = i, status
			return memd.StatusSubDocBadMulti
		}
	}
	if macros.usesChecksum && !mu.removed {
		// The checksum is of the changed body, so the attributes are written again.
		// Operations that succeeded before succeed again.
		macros.body = next.value
		next.xattrs, mu.results = before, nil
		for i := range c.specs {
			if s := &c.specs[i]; s.xattr() {
				if status := c.editOne(s, i, next, mu, mkdirs, &macros); status != memd.StatusSuccess {
					mu.failedAt, mu.failure = i, status
					return memd.StatusSubDocBadMulti
				}
			}
		}
	}
	return memd.StatusSuccess
}

func (c *conn) editOne(s *subdocSpec, i int, next *document, mu *mutation, mkdirs bool, macros *macroValues) memd.StatusCode {
	switch {
	case s.isBodyDelete():
		mu.removed = true
		return memd.StatusSuccess
	case s.isBodySet():
		next.value = s.value
		next.json = json.Valid(s.value)
		return memd.StatusSuccess
	}
	if status := c.parsePath(s); status != memd.StatusSuccess {
		return status
	}
	value := s.value
	if s.flags&memd.SubdocFlagExpandMacros != 0 {
		var ok bool
		if value, ok = macros.expand(value); !ok {
			return wire.StatusUnknownVattrMacro
		}
	}
	doc := next.value
	if s.xattr() {
		if doc = next.xattrs; doc == nil {
			doc = emptyObject
		}
	} else if !next.json {
		return memd.StatusSubDocNotJSON
	}
	edited, result, status := jsonpath.Edit(doc, s.op, s.path, value, mkdirs || s.flags&memd.SubdocFlagMkDirP != 0)
	if status != memd.StatusSuccess {
		return status
	}
	if !s.xattr() {
		next.value = edited
	} else if next.xattrs = edited; string(edited) == "{}" {
		next.xattrs = nil
	}
	if result != nil {
		mu.results = append(mu.results, byte(i), 0, 0)
		mu.results = binary.BigEndian.AppendUint32(mu.results, uint32(len(result)))
		mu.results = append(mu.results, result...)
	}
	return memd.StatusSuccess
}
