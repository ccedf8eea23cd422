// Package drivertest holds the rules of package driver, and the promises of
// package slidingttl on top of them, as a suite of tests that any driver can run.
//
// A driver's own test opens an empty backend and hands it over:
//
//	func TestContract(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			Bubble: true,
//			Open: func(t testing.TB) *drivertest.Backend {
//				d := mystore.New[drivertest.Value]()
//				t.Cleanup(d.Close)
//				return &drivertest.Backend{
//					Driver: d,
//					Plant:  func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error { ... },
//				}
//			},
//			Lacks: map[drivertest.Feature]string{
//				drivertest.Fail: "a store in this process's memory does not fail",
//				drivertest.Hang: "its calls do not block",
//				...
//			},
//		})
//	}
//
// Every case is a subtest, named for what it is about: "touch/absent",
// "store/cap". A case that fails prints, beside what it saw, what that would mean
// to a user of the store.
//
// # The two levels
//
// Most cases call the driver alone and follow the comments of package driver,
// sentence by sentence. Those under "store/" put a slidingttl.Store on top and hold
// the promises listed in that package. A driver that fails below will mostly fail
// above too: mend what is below first.
//
// # Time
//
// The caller's clock is the suite's own. A case starts it at the backend's time,
// holds it still, and moves it at will, by months if it has to, without the
// backend's clock following. To the backend that is a client whose clock runs
// ahead; to the case it is a store that deletes late. A driver passes such cases if
// it takes Life.ExpiresAt for the absolute instant that it is, and judges life by
// the time it is given. So they take no time, whatever the backend.
//
// A few cases ask what the backend itself does when an expiry comes: whether it
// keeps the record to the end, and whether a touch has reached the store's own
// expiry and not only a field beside it. They let the backend's time pass by
// [Backend].Wait, in a unit of a second or the driver's resolution, whichever is
// longer. There are three ways:
//
//   - In a bubble of testing/synctest ([Harness].Bubble), for drivers whose store
//     is in this process and reads time from package time. Nothing takes time.
//   - With a test server whose clock can be set: Now and Wait are that clock's.
//   - In real time, with Now and Wait left nil. At a resolution of a second that is
//     about a minute one after the other, and less with [Harness].Parallel.
//
// # What a backend cannot do
//
// Some cases need more than a driver: a record written as another program would, a
// backend that fails on demand, one that does not answer, a clock. Each is a
// [Feature]. A harness either offers it or says in [Harness].Lacks why not; the
// cases left out are then logged with that reason. What is neither offered nor
// declared fails, so that no case is left out unseen; an optional interface that a
// driver means to implement and misses by a wrong signature is found the same way.
//
// # Keys and leftovers
//
// No key is used by two cases or two runs, so a table or bucket may be shared by
// all of them, and by parallel ones. Cases leave their records behind, all but a
// few with an expiry.
package drivertest
