// Package stores measures reads that keep their record alive on Couchbase and
// DynamoDB: the bare client, what teams do without this SDK, and the SDK. The stores
// are couchbasetest, in a process of its own, and DynamoDB Local; those who read share
// another.
package stores
