package driver

// Dead is a record that has died, for an archive.
type Dead struct {
	Key string
	Raw
	At      Instant // when it died: its expiry, its cap, or when it was deleted
	Deleted bool    // it was deleted before its time
}
