package couchbase

import (
	"math/bits"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A record's version is its CAS, mixed with its life. A write carries the CAS that
// comes out of the version and the life it was planned for: if the two are not of the
// same reading that is no CAS of the record, and the write lands on nothing. The
// server compares nothing but the CAS.

func version(cas gocb.Cas, l driver.Life) driver.Version {
	return driver.Version(uint64(cas) ^ mark(l))
}

// cas is the CAS of the record m.
func cas(m driver.Meta) gocb.Cas {
	return gocb.Cas(uint64(m.Version) ^ mark(m.Life))
}

// mark differs for lives that differ. An odd factor maps no two instants to one.
func mark(l driver.Life) uint64 {
	return uint64(l.CreatedAt)*0x9e3779b97f4a7c15 ^ bits.RotateLeft64(uint64(l.ExpiresAt)*0xbf58476d1ce4e5b9, 32)
}
