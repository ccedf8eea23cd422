// Package dynamodb keeps slidingttl's records in a DynamoDB table. It uses the
// application's own client of the AWS SDK.
//
//	client := awsdynamodb.NewFromConfig(cfg)
//	d, err := dynamodb.New[Session](client, "sessions", nil)
//	...
//	if err := d.Check(ctx, 90*24*time.Hour); err != nil { // once, at start-up
//	...
//	store, err := slidingttl.New(d, policy, nil)
//
// # What is stored
//
// A record is one item. The value is marshalled with attributevalue (dynamodbav
// struct tags), so that indexes, the console and other languages can read it; it
// must encode to a map, as a struct does. A map[string]types.AttributeValue is kept as it is.
// Beside it the driver writes
//
//	ttl                 Number   when it expires, in whole seconds since the Unix epoch, rounded up
//	created_at          String   when it was created, RFC 3339 in UTC with milliseconds
//	slidingttl_version  Number   random, another with every write of the value
//
// under these names or others, see [Options]. Where T maps one of the first two, or a
// key attribute, it reads what the driver wrote; what T holds there is not written.
// An overwrite replaces the whole item, attributes that T does not know included.
// A touch changes nothing else.
//
// # Expiry
//
// DynamoDB deletes an expired item minutes to days late, and hands it out until
// then, so every condition written here looks at the expiry itself, and the store
// above at what is read. An expiry that DynamoDB ignores, because it is a String or
// in milliseconds, is read as what it plainly means, and written as it should be by
// the touch that falls due. An expiry of zero or less is one long past, as in a filter
// expression. An item without one, or with NULL, never expires by itself.
//
// # Retention
//
// With [Options].Retain ttl is later than the record's expiry, which stands beside it:
//
//	slidingttl_expiry   Map      at, the record's expiry, and ttl, both as Numbers of seconds
//
// It counts for as long as the item's ttl is the one that stands in it, so that whoever
// moves that alone decides. A driver without Retain reads it too, and a touch by it takes
// it away.
//
// # Conditions
//
// Every write but Delete is conditional and takes one request, for the item found in
// the way comes back with the failure (ALL_OLD). DynamoDB bills a failed condition
// like a write. An item that holds an instant in a form not usual for it (created_at in
// another zone or finer than milliseconds, an expiry that DynamoDB ignores, a version
// that is no Number) costs a second request; a touch brings the instants into the
// usual form. What was a String stays one, what was a Number of seconds or of
// milliseconds too.
//
// The version tells that a value was overwritten. Programs that write items beside
// this driver should change it too, to any other value, or no compare-and-swap can
// notice what they write within a generation; one that leaves it out takes it away,
// which is noticed if there was one.
//
// # Once
//
// A write is done once, or an error says so. What DynamoDB has refused (throttled, in a
// transaction, no connection) the client's retryer sends again, as often as it is
// configured to. A write that may have landed, because its answer was lost or was a 5xx,
// is sent again only where it would know itself: Replace and Touch, whose conditions name
// the version they replace. Else, and where a resent one meets another's write, the error
// matches driver.ErrAmbiguous. A write over a record is given up when the record's life
// has ended, for it would revive what others have found dead.
//
// # Errors
//
// The SDK's errors stay reachable with errors.As. An error of an item names the
// attribute, and in GetMulti the place of its key in the call; no key and no value is
// quoted, but for an instant that cannot be read.
package dynamodb
