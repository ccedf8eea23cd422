// Package couchbasetest runs a Couchbase node in the test's process, as [net/http/httptest]
// a server. It needs no container and no network but loopback, and the test sets its clock.
//
//	func TestSessions(t *testing.T) {
//		node := couchbasetest.Start(t)
//		sessions := node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()
//		// … use sessions as in production …
//		node.Advance(31 * time.Minute) // and see it expire
//	}
//
// A [Node] speaks the memcached binary protocol to an unmodified gocb, and
// serves the few management pages that gocb reads bucket and collection
// settings from. It keeps everything in memory. It is one node of one cluster:
// no replicas, no queries, no search, no change streams.
//
// # What it does as the server does
//
// Compare-and-swap values grow with every change of a document and only then.
// Expiry is kept in whole seconds: a document whose expiry is E can be read
// while the clock's second is E, and is gone in the second after, which is how
// Couchbase compares (kv_engine, StoredValue::isExpired). Values up to 30 days
// are relative to now, larger ones are absolute. A get-and-touch or touch that
// asks for the expiry a document already has is no mutation. The maxTTL of a
// collection, or else of its bucket, caps what is asked for and applies to
// documents without an expiry. Extended attributes survive a plain replace of
// the document and die with it.
//
// # What it does not do
//
// A command it does not know answers "unknown command", and a part of a command
// that it does not model answers "not supported" with a text that says which:
// there is no pretended success. README.md lists both.
//
// # Time
//
// A node starts on the real clock. [Node.SetTime] stops its clock at an
// instant, [Node.Advance] moves it. Only the node's view of time changes: gocb's
// timeouts and [Node.SetLatency] always run on real time.
//
// # Concurrency
//
// All methods of Node may be called by many goroutines at once, and while
// clients are connected.
package couchbasetest
