package couchbasetest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strconv"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest/internal/jsonpath"
)

// virtual generates the virtual attributes of a document.
type virtual struct {
	doc     *document
	cas     uint64 // as a read sees it
	vbucket *vbucket
	hlc     hlcTime
}

type hlcTime struct {
	seconds uint64
	mode    string
}

// object returns the attribute of that name as the only member of an object, as paths
// into it expect.
func (v *virtual) object(name string) ([]byte, memd.StatusCode) {
	switch name {
	case "$document":
		return fmt.Appendf(nil, `{"$document":%s}`, v.document()), memd.StatusSuccess
	case "$vbucket":
		return fmt.Appendf(nil, `{"$vbucket":{"HLC":{"mode":%q,"now":"%d"}}}`, v.hlc.mode, v.hlc.seconds), memd.StatusSuccess
	case "$XTOC":
		var names [][]byte
		if v.doc.xattrs != nil {
			names = jsonpath.Names(v.doc.xattrs)
		}
		return fmt.Appendf(nil, `{"$XTOC":[%s]}`, bytes.Join(names, []byte(","))), memd.StatusSuccess
	default:
		return nil, memd.StatusSubDocXattrUnknownVAttr
	}
}

// document returns $document, with the server's members (kv_engine,
// SubdocExecutionContext::get_document_vattr).
func (v *virtual) document() []byte {
	d := v.doc
	return fmt.Appendf(nil, `{"CAS":"0x%016x","datatype":%s,"deleted":false,"exptime":%d,"flags":%d,`+
		`"last_modified":"%d","revid":"%d","seqno":"0x%016x","value_bytes":%d,"value_crc32c":"0x%08x","vbucket_uuid":"0x%016x"}`,
		v.cas, datatypeNames(d.datatype()), d.expiry, d.flags,
		v.cas/1e9, d.revid, d.seqno, len(d.value), checksum(d.value), v.vbucket.uuid)
}

func appendExptime(out []byte, d *document) []byte { return appendUint(out, uint64(d.expiry)) }

func appendUint(out []byte, n uint64) []byte { return strconv.AppendUint(out, n, 10) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }

func datatypeNames(f memd.DatatypeFlag) string {
	if f == 0 {
		return `["raw"]`
	}
	names := ""
	for _, n := range []struct {
		flag memd.DatatypeFlag
		name string
	}{
		{memd.DatatypeFlagXattrs, "xattr"},
		{memd.DatatypeFlagCompressed, "snappy"},
		{memd.DatatypeFlagJSON, "json"},
	} {
		if f&n.flag == 0 {
			continue
		}
		if names != "" {
			names += ","
		}
		names += strconv.Quote(n.name)
	}
	return "[" + names + "]"
}

// Macros that stand for the mutation itself.
const (
	macroCAS      = `"${Mutation.CAS}"`
	macroSeqno    = `"${Mutation.seqno}"`
	macroChecksum = `"${Mutation.value_crc32c}"`
)

func isMacro(value []byte) bool {
	switch string(value) {
	case macroCAS, macroSeqno, macroChecksum:
		return true
	}
	return bytes.HasPrefix(value, []byte(`"${$document`)) && bytes.HasSuffix(value, []byte(`}"`))
}

// macroValues expands macros in the course of a mutation. The lock of vb is
// held.
type macroValues struct {
	vb   *vbucket
	old  *document // nil where the mutation makes a new one
	now  int64
	body []byte

	usesChecksum bool // a macro needs the body, which is computed last
}

func (m *macroValues) expand(macro []byte) (value []byte, ok bool) {
	switch string(macro) {
	case macroCAS:
		// Bytes reversed, as the server writes it on little-endian machines.
		return fmt.Appendf(nil, `"0x%016x"`, bits.ReverseBytes64(m.vb.peekCAS(m.now))), true
	case macroSeqno:
		return fmt.Appendf(nil, `"0x%016x"`, m.vb.seqno+1), true
	case macroChecksum:
		m.usesChecksum = true
		return fmt.Appendf(nil, `"0x%08x"`, checksum(m.body)), true
	}
	// The rest describes the former document.
	old := m.old
	if old == nil {
		old = &document{}
	}
	v := virtual{doc: old, cas: old.cas, vbucket: m.vb}
	whole := v.document()
	field := bytes.TrimSuffix(bytes.TrimPrefix(macro, []byte(`"${$document`)), []byte(`}"`))
	if len(field) == 0 {
		return whole, true
	}
	if field[0] != '.' {
		return nil, false
	}
	value, status := jsonpath.Member(whole, field[1:])
	return value, status == memd.StatusSuccess
}
