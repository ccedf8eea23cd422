// Package drivertest is the contract of a driver as a suite of tests that any driver can
// run. It tests the rules of package driver, and the promises of package slidingttl on top
// of them.
//
// A driver's own test says how to open an empty backend and hands that over: for a
// store in this process as the example of [Run] does, and for one across a network, with
// a test server whose clock can be set and which can be told to misbehave, like this:
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
//					Malform: func(...) error { ... }, // likewise
//					Mar:     func(...) error { ... }, // likewise
//					Retain:  func(d time.Duration) driver.Driver[drivertest.Value] { ... },
//					Fail:    func() func() { server.FailAll(busy); return server.Mend },
//					Own:     func(err error) bool { return errors.Is(err, mystore.ErrBusy) },
//					Hang:    server.Hang,
//					Gate:    gate,         // through which Driver's client sends
//					Apart:   server.Apart, // sets its clock off the process's
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
// Every case is a subtest, named for what it is about: "touch/absent",
// "store/cap". A case that fails prints what it saw and then what that would mean
// to a user of the store. Run the suite with the race detector on: some of what it
// does at once only fails there.
//
// # The two levels
//
// Most cases call the driver alone and follow the comments of package driver,
// sentence by sentence. The capabilities that a driver may leave out are tested
// through the functions that fall back, [driver.Upsert] and [driver.GetMulti],
// where there are any. The cases under "store/" put a slidingttl.Store on top and
// hold the promises that package lists, with a helper in between that holds up
// calls of the driver and makes them fail, for the races that matter most: a
// delete, an overwrite, a new life or another touch, between a read and its touch.
// A driver that fails below will mostly fail above too: mend what is below first.
//
// No case hands a driver a record that was never there. What a write is planned
// for has been read, written or found in a conflict before, so a driver may go by
// whatever tells records apart in its store: on one whose version changes with
// every write and never returns, by the version alone.
//
// # Time
//
// The caller's clock is the suite's own. A case starts it at the backend's time,
// holds it still, and moves it at will, by months if it has to, without the
// backend's clock following. To the backend that is a client whose clock runs
// ahead; to the case it is a store that deletes late. A driver passes if it takes
// Life.ExpiresAt for the absolute instant that it is, and judges life by the time
// it is given. So nearly all cases take no time, whatever the backend.
//
// A few ask what the backend itself does when an expiry comes: whether it keeps
// the record to the end, and whether a touch has reached the store's own expiry
// and not only a field beside it. They let the backend's time pass by
// Backend.Wait, in a unit of a second or the driver's resolution, whichever is
// longer. There are three ways:
//
//   - In a bubble of testing/synctest (Harness.Bubble), for drivers whose store is
//     in this process and reads time from package time. Nothing takes time.
//   - With a test server whose clock can be set: Now and Wait are that clock's.
//   - In real time, with Now and Wait left nil. At a resolution of a second the
//     waiting comes to about forty seconds, and to about half of that with
//     Harness.Parallel on two cores.
//
// # What a good day does not ask
//
// The cases under "late/" and "resent/" stop a write on its way by a [Gate]: until its record
// is dead or another's, or to lose its answer, with and without another writer in between.
// Those under "apart/" set the store's clock off the process's, whose drivers know nothing of
// it: there the clock is nobody's but the process's own, for a store that is told another by
// its options tests nothing. Those under "hostile/" load records that no driver writes beside
// sound ones, and walk over all of them.
//
// # What a backend cannot do
//
// Some cases need more than a driver: a record written as another program would, a
// backend that fails on demand, one that does not answer, an optional interface.
// Each is a [Feature]. A harness either has it or says in Harness.Lacks why not;
// the cases left out are then logged with that reason. What is neither there nor
// declared fails, and so does what is both: no case is left out unseen, and an
// optional interface that a driver means to implement but misses, by a wrong
// signature, is found.
//
// # Soaks
//
// What many processes do at once, while answers are lost, is judged by [RunSoak], in a test
// of the driver's own that says what goes wrong below.
//
// # Keys and leftovers
//
// No key is used by two cases or two runs, so a table or bucket may be shared by
// all of them, parallel ones too. Cases leave their records behind, nearly all with
// an expiry.
package drivertest
