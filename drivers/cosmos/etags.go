package cosmos

import (
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// etags remembers the _etags of records, for writes that must name one: a version of 64 bits cannot
// hold it. Records with colliding versions evict each other. A stale _etag costs a refused write.
type etags struct {
	known [1 << 14]atomic.Pointer[etag]
}

// etag is the _etag of a record with exactly this meta: a touch keeps the version and changes the
// _etag.
type etag struct {
	driver.Meta
	text string
}

func (e *etags) slot(v driver.Version) *atomic.Pointer[etag] {
	return &e.known[uint64(v)%uint64(len(e.known))]
}

// of returns the _etag of was; empty: unknown.
func (e *etags) of(was driver.Meta) string {
	if known := e.slot(was.Version).Load(); known != nil && known.Meta == was {
		return known.text
	}
	return ""
}

func (e *etags) remember(m driver.Meta, text string) {
	slot := e.slot(m.Version)
	if known := slot.Load(); text != "" && (known == nil || known.Meta != m || known.text != text) {
		slot.Store(&etag{m, text})
	}
}
