// Package sources has no code but tests, for the way of the dead from each store into an
// archive: SQL's sweeper, harvests, and DynamoDB Streams, killed at random moments.
package sources
