package redis

import (
	"cmp"
	"time"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Prefix comes before every key. In a cluster, a prefix with a {tag} keeps all records in one
	// slot. Empty: keys are used as they are, and a scan lists every string of the database.
	Prefix string

	// Codec encodes and decodes values. Nil: encoding/json.
	Codec driver.Codec

	// Retain is how long the server holds a record after its expiry, for a Store's History and for
	// walks over all records: the key's own expiry is this much later than the header's. All calls
	// use the header's, and so do drivers with another Retain, of any version. A fraction of a
	// millisecond is rounded up. Zero: dead records are not held.
	Retain time.Duration

	// MaxSkew is how far a server's clock may differ from the system's before Check reports it.
	// Records use the servers' clocks, but in a cluster those should agree. Zero: 1 s.
	MaxSkew time.Duration
}

// validate returns o with its defaults filled in.
func (o Options) validate() (Options, error) {
	if o.MaxSkew < 0 {
		return o, &driver.InvalidError{Field: "Options.MaxSkew", Value: o.MaxSkew.String(), Rule: "must not be negative"}
	}
	if o.Retain < 0 {
		return o, &driver.InvalidError{Field: "Options.Retain", Value: o.Retain.String(), Rule: "must not be negative"}
	}
	o.MaxSkew = cmp.Or(o.MaxSkew, time.Second)
	if o.Codec == nil {
		o.Codec = kit.JSON{}
	}
	return o, nil
}

// gone returns when the server deletes a record that expires at that instant; zero: never.
func (o *Options) gone(at driver.Instant) driver.Instant {
	if at == 0 {
		return 0
	}
	return at.Add(o.Retain)
}

// retain returns Retain as scripts take it, in milliseconds.
func (o *Options) retain() string { return decimal(driver.Instant(0).Add(o.Retain)) }
