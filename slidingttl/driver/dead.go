package driver

import "time"

// Dead is a record that has died, for an archive.
type Dead struct {
	Key string
	Raw
	At      Instant // when it died: its expiry, its cap, or when it was deleted
	Deleted bool    // deleted while it was alive
}

// BuryStats counts the dead records that were handed to an archive.
type BuryStats struct {
	Records     uint64 // archived, including quarantined; a record handed over again counts once
	Bytes       uint64 // of their values
	Quarantined uint64 // records that could not be archived as they are
	Failures    uint64 // failed calls: their records are handed over again

	// Through is the time up to which all records due for the archive are in it. Zero: the source
	// has not reported yet.
	Through time.Time
}
