// Package couchbase keeps slidingttl's records in a Couchbase collection. It uses the
// application's own gocb cluster.
//
//	cluster, err := gocb.Connect("couchbase://localhost", gocb.ClusterOptions{...})
//	...
//	d, err := couchbase.New[Profile](cluster.Bucket("app").Collection("profiles"), nil)
//	...
//	store, err := slidingttl.New(d, policy, nil)
//
// # What is stored
//
// A record is a document like any other: the body is the value as gocb's transcoder
// encodes it, the expiry is the document's. created_at is kept in an extended
// attribute (xattr), in milliseconds, or in a field of the body, as ISO 8601; see
// [Options]. Other programs go on reading and writing the documents. One that they
// create has no created_at and is adopted on its first access; one that they
// overwrite keeps its xattr, and loses its expiry unless they preserve it, until the
// next access.
//
// # Expiry
//
// Couchbase counts whole seconds. Expiries travel as absolute instants whatever their
// length, so that what is stored does not depend on the server's clock, nor on when
// the request arrives. gocb cannot be asked for that: it sends lives below 30 days as
// seconds from the moment the server reads them, and floors them. Writes therefore go
// to gocbcore, the layer below gocb on the same connections; reads and deletes go
// through gocb. It follows that the cluster must be reached by couchbase:// or
// couchbases://, not couchbase2://, and that gocb's operation metrics and slow-operation
// log do not see the writes (its tracer does: a write is a dispatch span below
// Options.ParentSpan).
//
// # Retention
//
// With [Options].Retain the document's expiry is later than the record's. Both then stand
// in the xattr that each touch writes anyway, [created_at, expiry, document's expiry], and
// the record's counts for as long as the document has the one that is beside it: it belongs
// to the write that gave that. A driver without Retain reads it too.
//
// # Versions and races
//
// The version of a record is its CAS, which a touch changes too. Each write but
// the creation of a document carries the CAS that was read, so it lands on exactly that
// record; on a mismatch one more lookup says what is there now.
//
// # Errors
//
// gocb's own errors stay reachable with errors.As and errors.Is: *gocb.KeyValueError,
// *gocb.TimeoutError, gocb.ErrTemporaryFailure and so on. Their DocumentID is blank,
// since keys are often secret. A write that may have landed although it failed, because
// its answer did not arrive (a time-out, a connection that dropped, a context that
// ended) or because the server itself does not know (durability), matches
// [driver.ErrAmbiguous]; after any other error nothing was written. What may have landed
// is never sent again, whatever Options.RetryStrategy says.
package couchbase
