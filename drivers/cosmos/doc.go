// Package cosmos keeps slidingttl's records in a container of Azure Cosmos DB for NoSQL. It
// uses the application's own azcosmos.ContainerClient.
//
//	container, err := client.NewContainer("app", "sessions")
//	...
//	d, err := cosmos.New[Session](container, nil)
//	...
//	if err := d.Check(ctx, 90*24*time.Hour); err != nil { // once, at start-up
//	...
//	store, err := slidingttl.New(d, policy, nil)
//
// # What is stored
//
// A record is one item. The value is a JSON object, so that indexes, queries and other
// languages can read it. Beside its properties the driver writes
//
//	id                  String   the record's key
//	created_at          String   when it was created, RFC 3339 in UTC with milliseconds
//	expires_at          String   when it expires, likewise
//	ttl                 Number   seconds after the service's _ts until it removes the item
//	slidingttl_version  Number   random, another with every write of the value
//
// and the properties of the partition key, under these names or others, see [Options]. If T
// has a field for one of them, reads fill it with what the driver wrote, and writes ignore
// it. An overwrite replaces the whole item, also properties that T does not have. A touch
// changes only expires_at and ttl.
//
// # Expiry
//
// Cosmos DB counts ttl from the last write of the item, by any program, and has no cap. So
// expires_at says when a record expires, and every read uses it. ttl only makes the service
// remove the item, at Options.Retain and MaxSkew after its expiry or up to two seconds
// later, because each write restarts it and rounds it up. It is relative, so the service's
// clock does not matter. A write of another program that keeps ttl postpones the removal
// and changes nothing else. An item of another program without expires_at expires by its
// ttl. The driver does not know the container's default, and assumes that an item with
// neither never expires.
//
// # Conditions
//
// A touch is one patch, on condition that the item has the created_at, expiry and version
// that it was planned for. It sends no value. A replacement and a removal name the item's
// _etag, as does a touch of an item without a version. The driver remembers the _etag of
// the last records that it has read or written; for others it reads the item first.
//
// Cosmos DB does not say why a condition failed, so a conflict costs one more read. If that
// finds instants in an unusual form, the write is sent again for the _etag that was read.
//
// Other programs that write the items should change the version to any other number, or
// remove it. Otherwise touches do not notice their writes within a generation.
//
// # Consistency
//
// azcosmos does not keep session tokens. The driver keeps those of the latest answers, and
// reads with them. Under Session consistency, which an account should have at least, a
// driver sees its own writes at once and those of others within moments. It keeps a token
// that no replica has reached, until the container is recreated. No write depends on
// what a read saw, and a store reads again before it takes a record for dead that another
// process may just have touched (Latest). An account that takes writes in several regions
// decides between conflicting writes later, and is not for this driver.
//
// # Once
//
// A write is done once, or an error says otherwise. The driver lets azcore send a write
// again only if an answer says that it was not carried out: throttled (429), or met by
// another write (449) or a split (410), as often as Options.Retry says. azcore's own rule also resends after
// errors that it does not know, which are all errors of HTTP/2, and azcosmos uses HTTP/2.
// net/http resends a request of HTTP/2 after some resets, and that cannot be turned off. So
// if a write is refused after an attempt without an answer, the driver looks at the record
// found: its own version, or its own touch, is a success. Otherwise the error matches
// driver.ErrAmbiguous, as it does if the answer was lost or was a 5xx. A write over a
// record is given up when the record's life has ended, because it would revive a record
// that others have found dead.
//
// # Errors
//
// errors.As finds the client's errors; an *azcore.ResponseError is what the service said.
// Their texts contain URLs and so keys; the driver's texts leave them out.
package cosmos
