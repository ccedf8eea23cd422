// Package stores measures reads that keep their record alive, on every store. It compares
// the bare client, what teams do without this SDK, and the SDK. Couchbase is couchbasetest,
// in a process of its own, and Cosmos DB cosmostest, in the one that measures; those who
// read share another.
package stores
