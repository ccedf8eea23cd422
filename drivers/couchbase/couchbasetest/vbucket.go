package couchbasetest

import (
	"encoding/binary"
	"sync"
)

// document is one version of a document. It is replaced, never changed, so it may be
// read without the lock of its vbucket.
type document struct {
	value  []byte // as the client wrote it, inflated
	packed []byte // value in snappy, if the client sent it so; else nil
	xattrs []byte // a JSON object of the extended attributes; nil when there are none
	flags  uint32
	expiry uint32 // Unix seconds; 0: none
	json   bool   // value is JSON, determined by parsing, like on the server
	cas    uint64
	seqno  uint64
	revid  uint64

	lockedUntil int64  // Unix nanoseconds; 0: not locked
	lockCAS     uint64 // the CAS that only the client with the lock knows
}

// expired reports whether d is gone in the given second. A document lives through
// the whole second of its expiry (kv_engine, StoredValue::isExpired).
func (d *document) expired(second int64) bool {
	return d.expiry != 0 && int64(d.expiry) < second
}

func (d *document) locked(now int64) bool { return d.lockedUntil > now }

// readCAS returns the CAS of a read: an unusable one while the document is locked.
func (d *document) readCAS(now int64) uint64 {
	if d.locked(now) {
		return lockedCAS
	}
	return d.cas
}

type docKey struct {
	collection uint32
	key        string
}

// vbucket is one shard of a bucket.
type vbucket struct {
	uuid uint64

	// mu guards the rest.
	mu     sync.Mutex
	docs   map[docKey]*document
	seqno  uint64
	maxCAS uint64
}

func (vb *vbucket) init() {
	vb.uuid = binary.BigEndian.Uint64(randomBytes(8)) >> 16 // 48 bits, as the server's
	vb.docs = map[docKey]*document{}
}

// live returns the document under key, or nil. It removes an expired one, like the
// server. vb.mu is held.
func (vb *vbucket) live(collection uint32, key []byte, now int64) *document {
	d := vb.docs[docKey{collection, string(key)}] // does not allocate
	if d != nil && d.expired(now/1e9) {
		delete(vb.docs, docKey{collection, string(key)})
		vb.seqno++
		return nil
	}
	return d
}

// put stores d under key in place of old, which may be nil, with the next sequence
// number, revision and CAS. vb.mu is held.
func (vb *vbucket) put(collection uint32, key []byte, old, d *document, now int64) {
	vb.seqno++
	d.seqno = vb.seqno
	d.revid = 1
	if old != nil {
		d.revid = old.revid + 1
	}
	d.cas = vb.nextCAS(now)
	d.lockedUntil = 0 // a mutation ends the lock
	vb.docs[docKey{collection, string(key)}] = d
}

// remove deletes the document under key and returns the CAS of the deletion.
// vb.mu is held.
func (vb *vbucket) remove(collection uint32, key []byte, now int64) uint64 {
	delete(vb.docs, docKey{collection, string(key)})
	vb.seqno++
	return vb.nextCAS(now)
}

// nextCAS returns the next value of the server's hybrid logical clock: nanoseconds with
// the lower 16 bits cleared, or the last value plus one if that is greater (kv_engine,
// HLCT::nextHLC).
func (vb *vbucket) nextCAS(now int64) uint64 {
	vb.maxCAS = vb.peekCAS(now)
	return vb.maxCAS
}

// peekCAS returns what nextCAS would return.
func (vb *vbucket) peekCAS(now int64) uint64 { return max(vb.maxCAS+1, maskedTime(now)) }

func maskedTime(now int64) uint64 { return uint64(now) &^ 0xffff }

// hlc returns the clock's seconds, and whether they are the wall clock's. It does not
// move the clock. vb.mu is held.
func (vb *vbucket) hlc(now int64) (seconds uint64, mode string) {
	if t := maskedTime(now); t > vb.maxCAS {
		return t / 1e9, "real"
	}
	return (vb.maxCAS + 1) / 1e9, "logical"
}
