// Package dynamodb keeps slidingttl's records in a DynamoDB table, through the
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
// must encode to a map, as a struct does. Beside it the driver writes
//
//	ttl         Number   when it expires, in whole seconds since the Unix epoch, rounded up
//	created_at  String   when it was created, RFC 3339 in UTC with milliseconds
//	version     Number   random, another with every write of the value
//
// under these names or others, see [Options]. Where T maps one of them, or a key
// attribute, it reads what the driver wrote; what T holds there is not written.
// An overwrite replaces the whole item, attributes that T does not know included.
// A touch changes nothing else.
//
// # Expiry
//
// DynamoDB deletes an expired item minutes to days late, and hands it out until
// then, so every condition written here looks at the expiry itself, and the store
// above at what is read. An item whose expiry DynamoDB would ignore, because it is
// a string or in milliseconds, is a *driver.InvalidError, or is mended: see
// [Options].Repair. An expiry of zero or less is one long past, as in a filter
// expression. An item without one, or with NULL, never expires by itself.
//
// # Conditions
//
// Every write but Delete is conditional and takes one request, for the item found in
// the way comes back with the failure (ALL_OLD). DynamoDB bills a failed condition
// like a write. created_at is compared by its meaning: as RFC 3339 in UTC with up to
// three decimals, as seconds and as milliseconds in the same request; an item that
// holds it otherwise (another zone, finer decimals), or its expiry in a form to
// repair, costs a second request, and a touch then brings such a string into the
// form above. Numbers are left as they are.
//
// The version tells that a value was overwritten. Programs that write items beside
// this driver should change it too, to any other value, or no compare-and-swap can
// notice what they write within a generation; one that leaves it out takes it away,
// which is noticed if there was one.
//
// # Errors
//
// The SDK's errors stay reachable with errors.As. A write whose answer was lost is
// sent again by the SDK's retryer; the version tells the driver when it meets its own
// write then. Retries and their limits are the client's.
package dynamodb
