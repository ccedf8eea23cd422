package cosmos

import (
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// etags remembers the _etag of records, for the writes that Cosmos DB only makes for a given
// _etag: a version of 64 bits cannot hold one. It forgets where the versions of two records
// meet. What it remembers may be out of date, and costs a refused write then.
type etags struct {
	known [1 << 14]atomic.Pointer[etag]
}

// etag is the _etag with which a record was read or written. A touch keeps the version and
// changes the _etag, so it is of the whole of the record's meta.
type etag struct {
	driver.Meta
	text string
}

func (e *etags) slot(v driver.Version) *atomic.Pointer[etag] {
	return &e.known[uint64(v)%uint64(len(e.known))]
}

// of is the _etag of the record was, "" if it is not known.
func (e *etags) of(was driver.Meta) string {
	if known := e.slot(was.Version).Load(); known != nil && known.Meta == was {
		return known.text
	}
	return ""
}

func (e *etags) remember(m driver.Meta, text string) {
	if text != "" {
		e.slot(m.Version).Store(&etag{m, text})
	}
}
