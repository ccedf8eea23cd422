// Package archive keeps records that died as Parquet files, in a directory or in S3, and
// finds them.
//
//	bucket, err := archive.OpenDirectory("/var/lib/links/archive")
//	...
//	w, err := archive.NewWriter(bucket, nil)
//	...
//	err = w.Write(ctx, archive.Batch{Source: "links", Records: dead})
//
//	found, err := archive.NewReader(bucket, nil).Find(ctx, "abc", archive.Span{})
//
// # Once in the archive
//
// A source hands over what died, at least once. Write returns nil when the batch is durable;
// then the source may delete the records and move its checkpoint ([Writer.SaveCheckpoint]),
// in this order. What is handed over again is in the archive once all the same:
//
//   - a record is one life of a key, by its Source, Key and Generation;
//   - a batch of the same lives as one that was written is not written again;
//   - if batches are cut otherwise after a crash, a life may be in two files: no [Reader]
//     tells it twice, and [Compact] keeps it once.
//
// All need a source that says the same of a record each time, ExpiredAt above all: it says
// in which day's directory the record is.
//
// # Layout
//
// A day of death is a directory, a batch has a file in each of its days:
//
//	day=2026-11-22/batch-<batch>-<rows>-<sha256>.parquet
//	day=2026-11-22/merge-<number>-<rows>-<sha256>.parquet
//	day=2026-11-22/_manifest-<number>.json
//	_quarantine/                               as a day
//	checkpoints/<name>
//
// A file appears whole or not at all and never changes, and its name says how many rows it
// has and what its bytes must hash to. So the listing of a day is its manifest: there is no
// list beside the files for writers to contend for, and none that a crash could leave out of
// step with them. Only what puts files in the place of others (Compact, [Forget]) writes a
// list: _manifest-<number>.json names the files that hold, with the batches that are in them,
// and outlaws whatever was there. It is numbered one above the last, and created only if
// nobody else has created that number: two of them never both win, and readers see the
// files before or the files after. Manifests hold no keys.
//
// A file is sorted by key and has a bloom filter of its keys. Its columns are key, source,
// generation, created_at, expired_at, archived_at, reason, format, value, and those of
// [WriterOptions].Columns. A key that is not valid UTF-8 stands in it as "base64:" and its
// bytes in base64, as does one that begins with "base64:".
//
// # Quarantine
//
// A record that cannot be archived as it is, such as one without a key, goes to _quarantine/
// with what is wrong in the column problem, and keeps no other from being archived. It is
// found, compacted and forgotten like the rest, and [Retain] leaves it.
//
// # Clocks
//
// A record that is yet to die, by the clock of the writer, is a *[ClockError]: one of the
// clocks is wrong. Nothing is written; the source hands it over again. [Retain] refuses to
// go by a clock that is far from what the archive has seen.
package archive
