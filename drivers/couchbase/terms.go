package couchbase

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// terms are the two expiries of a document in seconds: the record's, and the document's, which is
// later by Options.Retain. If they differ, the stamp holds both. The stamp is the xattr that every
// touch writes anyway: created_at, or the time of the touch if created_at is in the body. Its
// number n then becomes [n, expires, until].
//
// The record's expiry counts only while the document's expiry is still until. A comparison by
// "earlier" would accept the stamp of an older life: other programs, and overwrites that keep
// xattrs, move the document's expiry without the stamp. The write's own CAS, as the server can
// store it, would not survive other writes that keep the expiry.
type terms struct {
	expires uint32
	until   uint32 // zero, here and in expires: never
}

// terms returns the terms for a write of life l.
func (d *Driver[T]) terms(l driver.Life) (terms, error) {
	at, err := expiry(l.ExpiresAt)
	if at == 0 || err != nil {
		return terms{}, err
	}
	if l.CreatedAt == 0 { // back to another program's record: no retention
		return terms{at, at}, nil
	}
	return d.retained(at), nil
}

// retained returns the terms of a record that expires at a time, if ever.
func (d *Driver[T]) retained(at uint32) terms {
	if at == 0 {
		return terms{}
	}
	seconds := uint64(d.opts.Retain / resolution)
	if d.opts.Retain%resolution > 0 {
		seconds++
	}
	return terms{at, uint32(min(uint64(at)+seconds, math.MaxUint32))}
}

// stamp returns the JSON of the stamp for n and t. n is not secret.
func (t terms) stamp(n driver.Instant) []byte {
	if t.expires == t.until {
		return strconv.AppendInt(nil, int64(n), 10)
	}
	return fmt.Appendf(nil, "[%d,%d,%d]", n, t.expires, t.until)
}

// parseStamp reads a stamp; ok is false if raw is none.
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

// stampedPath is the path of the stamp.
func (p place) stampedPath() string {
	if p.body {
		return touchedPath
	}
	return p.path
}

// stamp returns the operation that writes the stamp, which may be created_at itself.
func (p place) stamp(t terms, created, now driver.Instant) gocbcore.SubDocOp {
	n := created
	if p.body {
		n = now
	}
	return setXattr(p.stampedPath(), t.stamp(n))
}

// peeked is a record without its value.
type peeked struct {
	driver.Meta
	until driver.Instant // the document's expiry
}

// record builds a record from its document's expiry, its created_at if that is in the body, its
// stamp and its CAS.
func (p place) record(until, created driver.Instant, stamp []byte, cas driver.Version) (peeked, error) {
	r := peeked{Meta: driver.Meta{Life: driver.Life{CreatedAt: created, ExpiresAt: until}, Version: cas}, until: until}
	if len(stamp) == 0 || string(stamp) == "null" {
		return r, nil
	}
	n, t, ok := parseStamp(stamp)
	switch {
	case !ok && p.body:
		return r, nil // no stamp of this driver's
	case !ok:
		return r, p.invalid(stamp, "must be a whole number of milliseconds since the Unix epoch, or an array of that number and two expiries in seconds")
	case p.body || n == zeroTime:
	case n < 0:
		return r, p.invalid(stamp, ruleEpoch)
	default:
		r.CreatedAt = n
	}
	switch {
	case t.until == 0:
	case until == instantOf(t.until):
		r.ExpiresAt = instantOf(t.expires)
	case p.body || writtenAt(cas) < instantOf(t.expires):
	case cas == lockedVersion:
		return r, &driver.InvalidError{Field: p.field(), Value: "of another expiry than the document's", Rule: "must be read without another client's lock, which hides the CAS that tells whether it is a dead record's", Err: errHidden}
	default:
		// Another program overwrote a retained dead record, and the server kept the xattrs: the new
		// record has no created_at.
		r.CreatedAt = 0
	}
	return r, nil
}

// errHidden says that a lock hides the CAS that tells whether a record has a created_at.
var errHidden = errors.New("the document is locked")

// zeroTime is time.Time{}.UnixMilli(), which a Go program writes for no time.
const zeroTime driver.Instant = -62135596800000

const ruleEpoch = "must be in 1970 or later"

func instantOf(seconds uint32) driver.Instant { return driver.Instant(seconds) * 1000 }

// writtenAt returns the time in a CAS; see sighting.
func writtenAt(cas driver.Version) driver.Instant { return driver.Instant(cas / 1e6) }
