package couchbasetest

import "math"

// maxRelative is the largest expiry, in seconds, that counts from now; larger
// ones are Unix times (kv_engine, mc_time_convert_to_real_time).
const maxRelative = 30 * 24 * 60 * 60

// absoluteExpiry turns the expiry of a request into Unix seconds, or 0 for none.
// ok is false when it does not fit into the 32 bits that a document has for it.
// An absolute time that has passed stays in the past, however far: it must not
// become 0.
func absoluteExpiry(asked uint32, second int64) (expiry uint32, ok bool) {
	if asked == 0 || asked > maxRelative {
		return asked, true
	}
	at := second + int64(asked)
	if at > math.MaxUint32 {
		return 0, false
	}
	return uint32(at), true
}

// capExpiry applies a maxTTL: the cap of an expiry, and the expiry of a
// document that has none (kv_engine, mc_time_limit_expiry_time).
func capExpiry(expiry, maxTTL uint32, second int64) uint32 {
	if maxTTL == 0 {
		return expiry
	}
	limit := uint32(min(second+int64(maxTTL), math.MaxUint32))
	if expiry == 0 || expiry > limit {
		return limit
	}
	return expiry
}
