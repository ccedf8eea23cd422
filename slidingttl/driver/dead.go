package driver

// Dead is a record that has died, as it is told of before its store removes it, or by the
// store when it has: for an archive.
type Dead struct {
	Key string
	Raw
	At      Instant // when it died: its expiry, its cap, or when it was deleted
	Deleted bool    // somebody deleted it before its time
}
