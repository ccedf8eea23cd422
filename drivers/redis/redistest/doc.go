// Package redistest runs Redis for tests and examples. It runs the real server, alone, with
// a replica, under a sentinel or as a cluster, and one in this process whose time can be
// set.
//
//	func TestSessions(t *testing.T) {
//		server := redistest.Start(t)
//		d, err := redis.New[Session](server.Client(t), nil)
//		...
//	}
//
// # The real server
//
// [Start], [StartCluster], [Server.StartReplica] and [Server.StartSentinel] start
// redis-server, or valkey-server where there is no other, from the PATH (apt-get install
// redis-server), or what REDISTEST_SERVER in the environment names, on a free port of the
// loopback interface, in some ten milliseconds, without persistence. It stops when the
// test ends, and also when the test's process dies. Without any of them Start fails the
// test, and says what to install. Time is the machine's, but for [StartClocked].
//
// # Virtual time
//
// [StartVirtual] starts miniredis, which is another implementation, in this process. Its
// clock stands still until it is moved, and keys expire by it.
//
// # Faults
//
// A [Proxy] stands between a client and any of these: it holds answers back, loses them,
// and sends a client to another server.
package redistest
