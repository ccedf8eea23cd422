package couchbase

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// terms are the two expiries of a document, in seconds: the record's, and its own, which is
// later by Options.Retain. Where they differ both stand in the document's stamp. That is
// the xattr which every touch writes anyway: created_at, or when the touch was where
// created_at is in the body. The number n that it else is becomes [n, expires, until].
//
// The record's expiry counts while the document still has the one that it was written
// with. One that is only earlier may be of a life before the last: other programs, and
// overwrites that leave the xattrs alone, move the document's without it. A mark of the
// write itself, its CAS as the server can put it there, would not outlive the writes of
// those who keep the expiry.
type terms struct {
	expires uint32
	until   uint32 // zero: never, as is expires
}

// terms are those that a write of life l gives.
func (d *Driver[T]) terms(l driver.Life) (terms, error) {
	at, err := expiry(l.ExpiresAt)
	if at == 0 || err != nil {
		return terms{}, err
	}
	if l.CreatedAt == 0 { // another program's, which retains nothing
		return terms{at, at}, nil
	}
	seconds := uint64(d.opts.Retain / resolution)
	if d.opts.Retain%resolution > 0 {
		seconds++
	}
	return terms{at, uint32(min(uint64(at)+seconds, math.MaxUint32))}, nil
}

// stamp is n, which is no secret, as it is written beside t.
func (t terms) stamp(n driver.Instant) []byte {
	if t.expires == t.until {
		return strconv.AppendInt(nil, int64(n), 10)
	}
	return fmt.Appendf(nil, "[%d,%d,%d]", n, t.expires, t.until)
}

// parseStamp reads a stamp. ok is false if it is none.
func parseStamp(raw []byte) (n driver.Instant, t terms, ok bool) {
	list, isList := bytes.CutPrefix(raw, []byte{'['})
	if !isList {
		ms, err := strconv.ParseInt(string(raw), 10, 64)
		return driver.Instant(ms), terms{}, err == nil
	}
	first, rest, _ := bytes.Cut(list, []byte{','})
	second, third, _ := bytes.Cut(rest, []byte{','})
	third, closed := bytes.CutSuffix(third, []byte{']'})
	ms, err1 := strconv.ParseInt(string(first), 10, 64)
	expires, err2 := strconv.ParseUint(string(bytes.TrimSpace(second)), 10, 32)
	until, err3 := strconv.ParseUint(string(bytes.TrimSpace(third)), 10, 32)
	ok = closed && err1 == nil && err2 == nil && err3 == nil
	return driver.Instant(ms), terms{uint32(expires), uint32(until)}, ok
}

// stampedPath is the path of the xattr that is the stamp.
func (p place) stampedPath() string {
	if p.body {
		return touchedPath
	}
	return p.path
}

// stamp is the operation that writes the stamp, with created_at if that is there.
func (p place) stamp(t terms, created, now driver.Instant) gocbcore.SubDocOp {
	n := created
	if p.body {
		n = now
	}
	return setXattr(p.stampedPath(), t.stamp(n))
}

// peeked is what is known of a record beside its value.
type peeked struct {
	driver.Meta
	until driver.Instant // the document's expiry
}

// record tells a record from what was read of its document: its expiry, created_at if that
// is in the body, the stamp and the CAS.
func (p place) record(until, created driver.Instant, stamp []byte, cas driver.Version) (peeked, error) {
	r := peeked{Meta: driver.Meta{Life: driver.Life{CreatedAt: created, ExpiresAt: until}, Version: cas}, until: until}
	if len(stamp) == 0 || string(stamp) == "null" {
		return r, nil
	}
	n, t, ok := parseStamp(stamp)
	switch {
	case !ok && p.body:
		return r, nil // others' business
	case !ok:
		return r, p.invalid(stamp, "must be a whole number of milliseconds since the Unix epoch, or that, an expiry and the document's")
	case !p.body:
		r.CreatedAt = n
	}
	switch {
	case t.until == 0:
	case until == instantOf(t.until):
		r.ExpiresAt = instantOf(t.expires)
	case !p.body && cas != lockedVersion && instantOf(t.expires) <= writtenAt(cas):
		// Another program wrote over what was dead and only retained, and the server
		// kept the xattrs: that is no life of the one before.
		r.CreatedAt = 0
	}
	return r, nil
}

func instantOf(seconds uint32) driver.Instant { return driver.Instant(seconds) * 1000 }

// writtenAt is the time that a CAS tells. See sighting.
func writtenAt(cas driver.Version) driver.Instant { return driver.Instant(cas / 1e6) }
