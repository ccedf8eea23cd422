// Package redistest runs Redis for tests and examples: the real server, single, with a
// replica or as a cluster, and one in this process whose time can be set.
//
//	func TestSessions(t *testing.T) {
//		server := redistest.Start(t)
//		d, err := redis.New[Session](server.Client(t), nil)
//		...
//	}
//
// # The real server
//
// [Start], [StartCluster] and [Server.StartReplica] start redis-server, or valkey-server,
// whichever is on the PATH first (apt-get install redis-server), on a free port of the
// loopback interface, in some ten milliseconds, without persistence. It stops when the
// test ends, and also when the test's process dies. Without any of them Start fails the
// test, and says what to install. Time is the machine's.
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
