// Package sources tests that dead records reach an archive from each store: by SQL's sweeper,
// harvests and DynamoDB Streams, which are killed at random moments. It has no other code.
package sources
