package couchbasetest

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/wire"
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

// virtual reports whether the path begins in an attribute that the server generates, such
// as $document.
func (s *subdocSpec) virtual() bool { return s.xattr() && len(s.raw) > 0 && s.raw[0] == '$' }

// specRule has the properties of an operation.
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

// refusal is why a sub-document request is not executed at all.
type refusal struct {
	status memd.StatusCode
	why    string
}

// checkDocFlags checks what concerns the whole request.
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
				return &refusal{wire.StatusInvalidXattrOrder, "extended attributes come first"}
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
		return &refusal{wire.StatusXattrInvalid, "the name of an extended attribute has 1 to 15 bytes and begins with no punctuation but _ and $"}
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

// parsePath parses the path of s into elems, which all operations of a request share.
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
