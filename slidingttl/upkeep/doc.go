// Package upkeep goes through all records of a store: to tell what state they are in
// (Audit), what a change of policy would do to them (Diff), and to bring them under a
// policy (Adopt), repair (Mend) and remove (Reap) them, or hand the dead to an archive
// (Harvest).
//
//	report, err := upkeep.Audit(ctx, d, policy, nil)
//	...
//	fmt.Println(report)
//
// # What all operations share
//
// They run over a [driver.Scanner], beside live traffic, several at once if need be.
// Audit and Diff write nothing, nor does Harvest but for PastCap. Adopt, Mend and Reap write only with
// [WriteOptions].Apply, and each write on condition that the record is still the one
// that was looked at: what an application does meanwhile wins, and is looked at again.
// So all of them may be run twice, or by two people at once.
//
// They go at a limited rate, in records, in writes, and in the store's own unit of cost
// (see [Limits]), over several segments of the store at once. They end at once when the
// context does.
//
// # Reports and checkpoints
//
// Each returns a report, also beside an error: what was found until then. Reports print
// as text and marshal to JSON.
//
// Options.Save is handed a [Checkpoint], plain data that marshals to JSON: at most every
// second, and at the end whatever the cause. Another process goes on from it by
// Options.Resume. What was done after the last checkpoint is looked at again, and needs
// no second write: it is then reported as found so, not as done.
//
// # What happens when the store fails
//
// A call that failed is made again, up to eight times over some 25 seconds, unless the
// store refuses it for good ([driver.ErrRefused]). A scan that fails then ends the operation,
// with the error and a checkpoint. A record that fails is left as it is, counted by reason and
// told to Options.Failed, and the rest goes on: up to Options.MaxFailed, or 32 one after the
// other ([ErrTooMany]).
//
// A record that was written while it was scanned may be met twice, and counts twice.
package upkeep
