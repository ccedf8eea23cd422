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
// A record is one item. The value is encoded as a JSON object, so that indexes, queries and
// other languages can read it. Beside its properties the driver writes
//
//	id                  String   the record's key
//	created_at          String   when it was created, RFC 3339 in UTC with milliseconds
//	expires_at          String   when it expires, likewise
//	ttl                 Number   seconds after the service's _ts until it removes the item
//	slidingttl_version  Number   random, another with every write of the value
//
// and the properties of the partition key, under these names or others, see [Options]. Where
// T has one of them it reads what the driver wrote; what T holds there is not written. An
// overwrite replaces the whole item, properties that T does not know included. A touch
// changes nothing else.
//
// # Expiry
//
// Cosmos DB counts ttl from the last write of the item, whoever made it, and knows no cap: it
// would slide with writes, and with those of others too. So expires_at says when a record
// expires, and every read goes by it; ttl only has the service remove the item, at
// Options.Retain and MaxSkew after its expiry or up to two seconds later, since each write counts it anew
// and rounds it up. It is relative, so that the service's clock does not matter. A write of
// another program that leaves it as it is postpones the removal and nothing else. An item
// without expires_at, written by another program, expires when its ttl says; the container's
// default the driver does not know, and takes such an item for one that never expires.
//
// # Conditions
//
// A touch is one patch, on the condition that the item has the created_at, expiry and version
// that it was planned for; it moves no value. A replacement and a removal name the item's
// _etag, which a driver remembers of some thousands of records that it has read or written
// last; for others it reads the item first. So do touches of items without a version.
//
// Cosmos DB does not tell what made a condition fail, so a conflict costs a read more, in
// which instants in a form that is not usual are met too: the write is then sent again for
// the _etag that was read.
//
// Programs that write items beside this driver should change the version, to any other
// number, or leave it out, or no touch can notice what they write within a generation.
//
// # Consistency
//
// azcosmos does not keep session tokens. The driver does, those of the latest answers, and
// reads with them: under Session consistency, which an account should have at least, a driver
// sees its own writes at once and those of others within moments. A session that no replica is
// up to is kept, until the container is made anew. No write depends on what a
// read saw, and a store reads again before it calls dead what another process may just have
// touched (Latest). An account that takes writes in several regions decides between them
// after the fact, and is not for this driver.
//
// # Once
//
// A write is done once, or an error says so. The driver has azcore send a write again only
// where an answer says that it was not carried out: throttled (429) or met by another (449), as
// often as Options.Retry says. By itself azcore resends what failed with an error that it does
// not know, as all of HTTP/2 are, and azcosmos asks for HTTP/2. net/http resends a request of
// HTTP/2 by itself after some resets, which nothing can keep it from. So a write that is refused
// after an attempt without an answer looks at what it met: its own version, or its own touch, is
// a success. Anything else is an error that matches driver.ErrAmbiguous, as is that of a write
// whose answer was lost or was a 5xx. A write over a record is given up when the record's life
// has ended, for it would revive what others have found dead.
//
// # Errors
//
// The client's errors stay reachable with errors.As; an *azcore.ResponseError is what the
// service said. Their texts have URLs, and URLs have keys, so the driver's texts leave them
// out.
package cosmos
