// Package redistest runs Redis for tests and examples. It runs the real server, alone, with a
// replica, under a sentinel or as a cluster, or miniredis in this process, whose time can be set.
//
//	func TestSessions(t *testing.T) {
//		server := redistest.Start(t)
//		d, err := redis.New[Session](server.Client(t), nil)
//		...
//	}
//
// # The real server
//
// [Start], [StartCluster], [Server.StartReplica] and [Server.StartSentinel] start the server
// that the environment variable REDISTEST_SERVER names, or else redis-server or valkey-server
// from the PATH (apt-get install redis-server). It listens on a free port of the loopback
// interface, is ready in some ten milliseconds, and persists nothing. It stops when the test
// ends, and also when the test's process dies. Without a server Start fails the test, and says
// what to install. The time is the machine's, except with [StartClocked].
//
// # Virtual time
//
// [StartVirtual] starts miniredis, another implementation, in this process. Its clock moves
// only when the test moves it, and keys expire by it.
//
//	server := redistest.StartVirtual(t)
//	d, err := redis.New[Session](server.Client(t), nil)
//	...
//	store, err := slidingttl.New(d, policy, &slidingttl.Options[Session]{Now: server.Now})
//	...
//	server.Advance(30 * time.Minute)
//
// # Faults
//
// A [Proxy] between a client and any of these delays answers, loses them, and redirects a
// client to another server.
package redistest
