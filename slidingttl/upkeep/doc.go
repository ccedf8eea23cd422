// Package upkeep visits all records of a store, to bring them under a policy. Adopt does that, and
// Undo takes it back. Mend corrects records, Reap removes dead ones, and Harvest gives them to an
// archive. Retire ends lives by key or prefix, and Erase removes the records of a person. Walk is for
// any other look at all records; those of the command slidingttl (audit, diff, dying) are such walks.
//
//	report, err := upkeep.Reap(ctx, d, policy, &upkeep.ReapOptions{WriteOptions: upkeep.WriteOptions{Apply: true}})
//	...
//	fmt.Println(report)
//
// # What all operations share
//
// They run over a [driver.Scanner], beside live traffic, and several may run at once. Walk
// writes nothing; Harvest writes only with PastCap. Adopt, Mend, Reap and Retire write
// only with [WriteOptions].Apply. Each write requires that the record has not changed since it
// was read: an application's write wins, and the record is read again. So all of them may
// run twice, or be started by two people at once.
//
// Their rate is limited, in records, in writes, and in the store's own unit of cost (see
// [Limits]). They visit several segments of the store at once. They end at once when the
// context ends.
//
// # Reports and checkpoints
//
// Each returns a report; together with an error, the report says what was found until then.
// Reports print as text and marshal to JSON.
//
// Options.Save gets a [Checkpoint], plain data that marshals to JSON, at most every second, and
// at the end for whatever cause. Another process continues from it by Options.Resume.
// Records that were changed after the last checkpoint are read again, and need no second
// write: the report then counts them as found in that state, not as changed.
//
// # What happens when the store fails
//
// A failed call is repeated, up to eight times in some 25 seconds, unless the store refuses
// it for good ([driver.ErrRefused]). If a scan then still fails, the operation ends with
// the error and a checkpoint. A record that fails is left unchanged, counted by reason and
// reported to Options.Failed, and the operation continues. It ends with [ErrTooMany] after
// more than Options.MaxFailed failures, or 32 in a row.
//
// A record that is written during the scan may be found twice, and counts twice.
package upkeep
