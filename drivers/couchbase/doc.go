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
// A record is an ordinary document. The body is the value as gocb's transcoder encodes it,
// and the expiry is the document's. created_at is in an extended attribute (xattr), in
// milliseconds, or in a field of the body, as ISO 8601; see [Options]. Other programs can
// continue to read and write the documents. A document that they create has no created_at,
// and its first access adopts it. One that they overwrite keeps its xattr, but loses its
// expiry until the next access, unless they preserve the expiry.
//
// # Expiry
//
// Couchbase counts whole seconds. The driver sends every expiry as an absolute instant, so
// that the stored expiry does not depend on the server's clock, nor on when the request
// arrives. gocb cannot do that: it sends lives below 30 days as seconds from the moment
// when the server reads them, rounded down. So writes go to gocbcore, the layer below gocb
// on the same connections; reads and deletes go through gocb. Therefore the connection must
// be couchbase:// or couchbases://, not couchbase2://. And gocb's operation metrics and
// slow-operation log do not see the writes; its tracer does, as a dispatch span below
// Options.ParentSpan.
//
// # Retention
//
// With [Options].Retain the document's expiry is later than the record's. The xattr that
// each touch writes anyway then has both: [created_at, expiry, document's expiry]. The
// record's expiry counts only while the document still has the expiry in the list, so that
// both are from the same write. A driver without Retain reads it too.
//
// # Versions and races
//
// The version of a record is its CAS, which a touch changes too. Each write except the
// creation of a document carries the CAS that was read, so it lands on exactly that record.
// After a mismatch the driver looks up the current record.
//
// # Errors
//
// errors.As and errors.Is find gocb's own errors: *gocb.KeyValueError, *gocb.TimeoutError,
// gocb.ErrTemporaryFailure and so on. Their DocumentID is blank, because keys are often
// secret. A failed write may have landed, because its answer did not arrive (a time-out, a
// dropped connection, an ended context) or because the server does not know (durability):
// then the error matches [driver.ErrAmbiguous]. After any other error nothing was written.
// A write that may have landed is never sent again, whatever Options.RetryStrategy says.
package couchbase
