package driver

import "time"

// Dead is a record that has died, for an archive.
type Dead struct {
	Key string
	Raw
	At      Instant // when it died: its expiry, its cap, or when it was deleted
	Deleted bool    // it was deleted before its time
}

// BuryStats counts what became of the dead that were handed over.
type BuryStats struct {
	Records     uint64 // archived, those quarantined included; what is handed over again is not
	Bytes       uint64 // of their values
	Quarantined uint64 // of the records, those that could not be archived as they are
	Failures    uint64 // calls that failed: their dead are handed over again

	// Through is the time by which all that was due for the archive is in it. Zero: its
	// source has not told yet.
	Through time.Time
}
