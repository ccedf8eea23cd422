// Package explore runs small programs, of two to four calls by up to three processes on
// one key, through every schedule, and judges each run by the contract. It consists of
// tests; see TestPairs. Package model covers long random histories; this package covers every order of short ones.
//
// A program names a driver, a mode, what is stored at the start, and the calls:
//
//	plain/exact/due/save@0,delete@1,save@1>2
//
// which is: process 0 saves; process 1 deletes and, after the second call, saves. The
// processes share one backend in a testing/synctest bubble. Each trip to it waits until
// the schedule has it take effect, and again until the schedule has it answered; between
// two actions the bubble runs until all goroutines are blocked. A schedule may also contain
// a number of faults: a trip fails unanswered, and its write takes effect later or never;
// a write takes effect and its answer is lost; a caller's context ends; a read is stale.
// Depth-first search with sleep sets leaves out schedules that differ only in the order
// of actions that no process can tell apart.
//
// A run that breaks a promise is reported with the flags that repeat it:
//
//	go test ./slidingttl/internal/explore -run TestReplay -v -explore.program='...' -explore.schedule='...'
//
// Where the driver of a program has "locks", each goroutine that is about to lock the touches of a
// store waits for the schedule as well, so that every order between two trips can happen; see
// TestLocks. These programs have too many schedules: they run by those that differ from the usual
// one in few places.
//
// It does not see data races: the race detector looks for those. One key is explored, and the driver
// is a model of a driver: real ones have drivertest.
//
// The oracle's arithmetic is its own and shares no code with the store's.
package explore
