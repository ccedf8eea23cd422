// Package drivertest is the contract of a driver as a suite of tests that any driver can
// run. It tests the rules of package driver, and the promises of package slidingttl on top
// of them.
//
// A driver's own test passes a function that opens an empty backend. For a store in this
// process see the example of [Run]. For a store across a network, use a test server whose
// clock can be set and that can be made to misbehave:
//
//	func TestContract(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{
//			Parallel: true,
//			Open: func(t testing.TB) *drivertest.Backend {
//				server, gate := mystoretest.Start(t), new(drivertest.Gate)
//				return &drivertest.Backend{
//					Driver:  mystore.New[drivertest.Value](server.Client()),
//					Again:   func() driver.Driver[drivertest.Value] { ... }, // another of these
//					Now:     server.Now,
//					Wait:    server.Advance,
//					MaxKey:  250,
//					Plant:   func(...) error { ... }, // by the store's plain client
//					Malform: func(...) error { ... }, // by the store's plain client
//					Mar:     func(...) error { ... }, // by the store's plain client
//					Retain:  func(d time.Duration) driver.Driver[drivertest.Value] { ... },
//					Fail:    func() func() { server.FailAll(busy); return server.Mend },
//					Own:     func(err error) bool { return errors.Is(err, mystore.ErrBusy) },
//					Hang:    server.Hang,
//					Gate:    gate,         // through which Driver's client sends
//					Apart:   server.Apart, // sets the server's clock apart from the process's
//					Hostile: func(...) error { ... }, // by the store's plain client
//				}
//			},
//			Lacks: map[drivertest.Feature]string{
//				drivertest.Local:       "the store is across a network",
//				drivertest.Clock:       "the server does not tell its time",
//				drivertest.ReadToucher: "a read and a touch are two requests",
//			},
//		})
//	}
//
// Every case is a subtest, named after its subject: "touch/absent", "store/cap". A case that
// fails prints what it saw, and what that would mean to a user of the store. Run the suite
// with the race detector: some faults of concurrent calls show only there.
//
// # The two levels
//
// Most cases call the driver alone and follow the comments of package driver,
// sentence by sentence. Optional capabilities are tested through the functions that fall
// back, such as [driver.Upsert] and [driver.GetMulti]. The cases under "store/" put a
// slidingttl.Store over the driver and check that package's promises. A helper between the
// two delays calls of the driver or makes them fail, for the races that matter most: a
// delete, an overwrite, a new life or another touch between a read and its touch. A driver
// that fails the first kind mostly fails the second too: fix the first kind first.
//
// No case gives a driver a record that never existed. The record that a write is planned for
// was read, written or found in a conflict before. So a driver may compare whatever
// identifies a record in its store: if versions change with every write and never repeat,
// the version alone.
//
// # Time
//
// The caller's clock is the suite's own. A case starts it at the backend's time, holds it
// still, and moves it, sometimes by months, while the backend's clock stays. The backend sees
// a client whose clock is ahead; the case sees a store that deletes late. A driver passes if
// it treats Life.ExpiresAt as an absolute instant, and judges life by the time that it is
// given. So nearly all cases take no time, on any backend.
//
// A few cases test what the backend itself does at an expiry: whether it keeps the record
// until then, and whether a touch has reached the store's own expiry and not only a field
// beside it. They let the backend's time pass by Backend.Wait, in a unit of a second or the
// driver's resolution, whichever is longer. There are three ways:
//
//   - In a bubble of testing/synctest (Harness.Bubble), for drivers whose store is
//     in this process and reads time from package time. Nothing takes time.
//   - With a test server whose clock can be set: Now and Wait are that clock's.
//   - In real time, with Now and Wait left nil. At a resolution of a second the
//     waits add up to about forty seconds, and to about half of that with
//     Harness.Parallel on two cores.
//
// # Faults
//
// The cases under "late/" and "resent/" stop a write on its way by a [Gate]: until its record
// is dead or was replaced, or to lose its answer, with and without another writer in between.
// Those under "apart/" set the store's clock apart from the process's, without the drivers'
// knowledge; stores use the process's own clock there, since Options.Now would hide the
// difference. Those under "hostile/" load records that no driver writes beside sound ones, and
// walk over all of them.
//
// # What a backend cannot do
//
// Some cases need more than a driver: a record written as another program would, a
// backend that fails on demand, one that does not answer, an optional interface.
// Each is a [Feature]. A harness either has it or gives the reason in Harness.Lacks, with
// which the cases that are left out are logged. A feature that is neither there nor in Lacks
// fails the test, and so does one that is both. So no case is left out silently, and an
// optional interface that a driver misses by a wrong signature is found.
//
// # Soaks
//
// [RunSoak] checks the answers to many processes at once while answers are lost. It runs in a
// test of the driver's own, which causes the faults.
//
// # Keys and leftovers
//
// No two cases or runs use the same key, so they may share a table or bucket, also in
// parallel. Cases leave their records behind, nearly all with an expiry.
package drivertest
