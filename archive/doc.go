// Package archive keeps dead records as Parquet files, in a directory or in S3, and finds them.
//
//	bucket, err := archive.OpenDirectory("/var/lib/links/archive")
//	...
//	w, err := archive.NewWriter(bucket, nil)
//	...
//	err = w.Write(ctx, "links", dead)
//
//	found, err := archive.NewReader(bucket).Find(ctx, "abc", archive.Span{})
//
// # Once in the archive
//
// A source hands over each record that died at least once. Write returns nil when the batch
// is durable. Then the source may delete the records and save its position
// ([Writer.SaveCheckpoint]), in this order. A record that is handed over again is in the
// archive once:
//
//   - a record is one life of a key, by its Source, Key and Generation;
//   - a batch of the same lives as one that was written is not written again;
//   - if batches are cut otherwise after a crash, a life may be in two files: no [Reader]
//     returns it twice, and [Compact] keeps it once.
//
// This requires that a source gives the same values for a record each time, above all
// ExpiredAt, which decides the record's directory.
//
// # Layout
//
// Each day of death has a directory. A batch has a file in each of its days:
//
//	day=2026-11-22/batch-<batch>-<rows>-<sha256>.parquet
//	day=2026-11-22/merged-<number>-<rows>-<sha256>.parquet
//	day=2026-11-22/_manifest-<number>.json
//	day=2026-11-22/_merged-<number>-<rows>-<sha256>    until a manifest names it
//	_quarantine/                                       as a day
//	checkpoints/<name>
//
// A file appears whole or not at all and never changes. Its name has the number of its rows
// and the hash of its bytes. So the listing of a day is its manifest: writers do not
// contend for a list, and a crash cannot make a list wrong. Only operations that replace
// files (Compact, [Forget]) write a list. _manifest-<number>.json names the files that
// count, with the batches in them; all former files no longer count. Its number is one
// above the last, and it is created only if that number does not exist. So of two
// operations one wins, and readers see the files before or the files after. Manifests
// contain no keys.
//
// A file is sorted by key and has a bloom filter of its keys. Its columns are key, source,
// generation, created_at, expired_at, archived_at, reason, format, value, and those of
// [WriterOptions].Columns. A key that is not valid UTF-8, or begins with "base64:", is
// stored as "base64:" and its bytes in base64.
//
// # Quarantine
//
// A record that cannot be archived unchanged, such as one without a key, goes to
// _quarantine/. The column problem says what is wrong. Other records are archived. Find,
// Compact and Forget treat it like other records; [Retain] leaves it.
//
// # Clocks
//
// A record that dies in the future, by the writer's clock, is an [ErrClock]: one of the
// clocks is wrong. Nothing is written; the source hands it over again. [Retain] fails if
// the clock is far from the times in the archive.
package archive
