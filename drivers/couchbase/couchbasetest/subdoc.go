package couchbasetest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
)

const (
	// maxSpecs is how many operations one sub-document request may have.
	maxSpecs = 16
	// maxXattrKey is the longest name of an extended attribute, in bytes
	// (kv_engine, is_valid_xattr_key: the limit of 16 includes an end mark).
	maxXattrKey = 15
)

// subdocSpec is one operation of a sub-document request.
type subdocSpec struct {
	op    memd.SubDocOpType
	flags memd.SubdocFlag
	raw   []byte          // the path as it was sent
	path  []jsonpath.Elem // the path in parts
	value []byte
}

func (s *subdocSpec) xattr() bool { return s.flags&memd.SubdocFlagXattrPath != 0 }
func (s *subdocSpec) wholeDoc() bool {
	return s.op == memd.SubDocOpGetDoc || s.isBodySet() || s.isBodyDelete()
}
func (s *subdocSpec) isBodySet() bool {
	return s.op == memd.SubDocOpSetDoc
}
func (s *subdocSpec) isBodyDelete() bool { return s.op == memd.SubDocOpDeleteDoc }

// virtual says whether the path begins in an attribute that no document has but
// the server makes up, such as $document.
func (s *subdocSpec) virtual() bool { return s.xattr() && len(s.raw) > 0 && s.raw[0] == '$' }

// specRule is what may be said of an operation.
type specRule struct {
	mutation  bool
	flags     memd.SubdocFlag
	docFlags  memd.SubdocDocFlag
	hasValue  bool
	emptyPath bool
}

const (
	createFlags    = memd.SubdocFlagMkDirP | memd.SubdocFlagXattrPath | memd.SubdocFlagExpandMacros
	createDocFlags = memd.SubdocDocFlagMkDoc | memd.SubdocDocFlagAddDoc
)

// specRules are the server's, less what is not modelled (kv_engine,
// subdocument_traits.h).
var specRules = map[memd.SubDocOpType]specRule{
	memd.SubDocOpGetDoc:   {emptyPath: true},
	memd.SubDocOpGet:      {flags: memd.SubdocFlagXattrPath},
	memd.SubDocOpExists:   {flags: memd.SubdocFlagXattrPath},
	memd.SubDocOpGetCount: {flags: memd.SubdocFlagXattrPath, emptyPath: true},

	memd.SubDocOpSetDoc:         {mutation: true, docFlags: createDocFlags, hasValue: true, emptyPath: true},
	memd.SubDocOpDeleteDoc:      {mutation: true, emptyPath: true},
	memd.SubDocOpDictAdd:        {mutation: true, flags: createFlags, docFlags: createDocFlags, hasValue: true},
	memd.SubDocOpDictSet:        {mutation: true, flags: createFlags, docFlags: createDocFlags, hasValue: true},
	memd.SubDocOpDelete:         {mutation: true, flags: memd.SubdocFlagXattrPath},
	memd.SubDocOpReplace:        {mutation: true, flags: memd.SubdocFlagXattrPath | memd.SubdocFlagExpandMacros, docFlags: memd.SubdocDocFlagAddDoc, hasValue: true},
	memd.SubDocOpArrayPushLast:  {mutation: true, flags: createFlags, docFlags: createDocFlags, hasValue: true, emptyPath: true},
	memd.SubDocOpArrayPushFirst: {mutation: true, flags: createFlags, docFlags: createDocFlags, hasValue: true, emptyPath: true},
	memd.SubDocOpArrayInsert:    {mutation: true, flags: memd.SubdocFlagXattrPath | memd.SubdocFlagExpandMacros, docFlags: memd.SubdocDocFlagAddDoc, hasValue: true},
	memd.SubDocOpArrayAddUnique: {mutation: true, flags: memd.SubdocFlagMkDirP | memd.SubdocFlagXattrPath, docFlags: createDocFlags, hasValue: true, emptyPath: true},
	memd.SubDocOpCounter:        {mutation: true, flags: memd.SubdocFlagMkDirP | memd.SubdocFlagXattrPath, docFlags: createDocFlags, hasValue: true},
}

// refusal is why a sub-document request is not carried out at all.
type refusal struct {
	status memd.StatusCode
	why    string
}

// checkDocFlags refuses what concerns the request as a whole.
func checkDocFlags(req *memd.Packet, flags memd.SubdocDocFlag) *refusal {
	const deleted = memd.SubdocDocFlagAccessDeleted | memd.SubdocDocFlagCreateAsDeleted | memd.SubdocDocFlagReviveDocument
	switch {
	case flags&deleted != 0:
		return &refusal{memd.StatusNotSupported, "couchbasetest keeps no deleted documents to access, create or revive"}
	case flags&memd.SubdocDocFlagReplicaRead != 0:
		return &refusal{memd.StatusNotSupported, "couchbasetest has no replicas"}
	case flags&^createDocFlags != 0:
		return &refusal{memd.StatusInvalidArgs, "unknown document flags"}
	case flags == createDocFlags:
		return &refusal{memd.StatusInvalidArgs, "a document is set or added, not both"}
	case flags&memd.SubdocDocFlagAddDoc != 0 && req.Cas != 0:
		return &refusal{memd.StatusInvalidArgs, "an add has no CAS"}
	}
	return nil
}

// parseSpecs reads the operations of a request into c.specs.
func (c *conn) parseSpecs(b []byte, mutation bool, docFlags memd.SubdocDocFlag) *refusal {
	c.specs, c.pathElems = c.specs[:0], c.pathElems[:0]
	headerLen := 4
	if mutation {
		headerLen = 8
	}
	bodySeen, last := false, false
	for len(b) > 0 {
		if len(c.specs) == maxSpecs {
			return &refusal{memd.StatusSubDocBadCombo, "more than 16 operations"}
		}
		if last {
			return &refusal{memd.StatusSubDocBadCombo, "nothing may follow the removal of the document"}
		}
		if len(b) < headerLen {
			return &refusal{memd.StatusInvalidArgs, "operation cut short"}
		}
		s := subdocSpec{op: memd.SubDocOpType(b[0]), flags: memd.SubdocFlag(b[1])}
		pathLen, valueLen := uint64(binary.BigEndian.Uint16(b[2:])), uint64(0)
		if mutation {
			valueLen = uint64(binary.BigEndian.Uint32(b[4:]))
		}
		if uint64(len(b)-headerLen) < pathLen+valueLen {
			return &refusal{memd.StatusInvalidArgs, "operation cut short"}
		}
		b = b[headerLen:]
		s.raw, s.value, b = b[:pathLen], b[pathLen:pathLen+valueLen], b[pathLen+valueLen:]

		if r := c.checkSpec(&s, mutation, docFlags); r != nil {
			return r
		}
		if s.xattr() {
			if bodySeen {
				return &refusal{statusInvalidXattrOrder, "extended attributes come first"}
			}
		} else {
			if s.isBodyDelete() && bodySeen {
				return &refusal{memd.StatusSubDocBadCombo, "the removal of the document stands alone"}
			}
			bodySeen, last = true, s.isBodyDelete()
		}
		c.specs = append(c.specs, s)
	}
	if len(c.specs) == 0 {
		return &refusal{memd.StatusSubDocBadCombo, "no operations"}
	}
	return nil
}

func (c *conn) checkSpec(s *subdocSpec, mutation bool, docFlags memd.SubdocDocFlag) *refusal {
	rule, ok := specRules[s.op]
	switch {
	case s.flags&memd.SubdocFlagBinaryXattr != 0, s.op == memd.SubDocOpReplaceBodyWithXattr:
		return &refusal{memd.StatusNotSupported, "couchbasetest has no binary extended attributes"}
	case !ok, rule.mutation != mutation:
		return &refusal{memd.StatusSubDocBadCombo, "this operation has no place in this request"}
	case !s.xattr() && s.flags&memd.SubdocFlagExpandMacros != 0:
		return &refusal{memd.StatusSubDocXattrInvalidFlagCombo, "macros belong in extended attributes"}
	case s.flags&^rule.flags != 0:
		return &refusal{memd.StatusInvalidArgs, "unknown flags of an operation"}
	case docFlags&^rule.docFlags != 0:
		return &refusal{memd.StatusInvalidArgs, "this operation does not go with these document flags"}
	case s.wholeDoc() && len(s.raw) > 0:
		return &refusal{memd.StatusInvalidArgs, "operations on the whole document have no path"}
	case rule.hasValue != (len(s.value) > 0):
		return &refusal{memd.StatusInvalidArgs, "an operation with a value it must not have, or without one it must have"}
	case len(s.raw) > jsonpath.MaxLen:
		return &refusal{memd.StatusInvalidArgs, "a path has at most 1024 bytes"}
	}
	if !s.xattr() {
		if len(s.raw) == 0 && !rule.emptyPath {
			return &refusal{memd.StatusInvalidArgs, "this operation needs a path"}
		}
		return nil
	}
	switch {
	case !c.features[memd.FeatureXattr]:
		return &refusal{memd.StatusNotSupported, "extended attributes were not negotiated"}
	case !validXattrKey(s.raw):
		return &refusal{statusXattrInvalid, "the name of an extended attribute has 1 to 15 bytes and begins with no punctuation but _ and $"}
	case mutation && s.virtual():
		return &refusal{memd.StatusSubDocXattrCannotModifyVAttr, ""}
	case s.flags&memd.SubdocFlagExpandMacros != 0 && !isMacro(s.value):
		return &refusal{memd.StatusSubDocXattrUnknownMacro, ""}
	}
	return nil
}

// validXattrKey checks the first component of a path (kv_engine,
// is_valid_xattr_key).
func validXattrKey(path []byte) bool {
	key := path
	if i := bytes.IndexAny(path, ".["); i >= 0 {
		key = path[:i]
	}
	if len(key) == 0 || len(key) > maxXattrKey || !utf8.Valid(path) || bytes.IndexByte(path, 0) >= 0 {
		return false
	}
	switch b := key[0]; {
	case b == '_' || b == '$':
		return len(key) > 1
	case b < 0x20 || b == 0x7f:
		return false
	case b < 0x80:
		return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b == ' '
	default:
		return true
	}
}

// parsePath takes the path of s apart, into elems that all operations of a
// request share.
func (c *conn) parsePath(s *subdocSpec) memd.StatusCode {
	n := len(c.pathElems)
	elems, status := jsonpath.Parse(c.pathElems[n:n:cap(c.pathElems)], s.raw)
	if status != memd.StatusSuccess {
		return status
	}
	s.path = elems
	c.pathElems = append(c.pathElems, elems...)
	return memd.StatusSuccess
}

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

// keepScratch keeps a buffer for the next request, unless it has grown beyond
// what a connection should hold on to.
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
		return appendExptime(out, d), memd.StatusSuccess // what gocb asks for with every expiry
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

// mutate carries a mutation out as a whole or not at all.
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
		return statusExpiryOverflow
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

// rootOfNew is the empty document that operations on a new one begin with: an
// array where the first of them appends to it, else an object; none where the
// request brings the whole document.
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
		// The checksum is of the body as it is now, so the attributes are written
		// once more: what went well before goes well again.
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
			return statusUnknownVattrMacro
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
