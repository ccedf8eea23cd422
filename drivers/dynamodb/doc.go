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
// A record is one item. attributevalue encodes the value (dynamodbav struct tags), so that
// indexes, the console and other languages can read it. It must encode to a map, as a
// struct does. A map[string]types.AttributeValue is stored unchanged. Beside it the driver
// writes
//
//	ttl                 Number   when it expires, in whole seconds since the Unix epoch, rounded up
//	created_at          String   when it was created, RFC 3339 in UTC with milliseconds
//	slidingttl_version  Number   random, another with every write of the value
//
// under these names or others, see [Options]. If T has a field for one of the first two, or
// for a key attribute, reads fill it with what the driver wrote, and writes ignore it. An
// overwrite replaces the whole item, also attributes that T does not have. A touch changes
// only what the driver writes.
//
// # Expiry
//
// DynamoDB deletes an expired item minutes to days late, and returns it until then. So each
// condition compares the expiry itself, and the store checks what is read. If DynamoDB
// ignores an expiry, because it is a String or in milliseconds, the driver understands it,
// and the next due touch writes it correctly. An expiry of zero or less is long past, as in
// a filter expression. An item without one, or with NULL, never expires by itself.
//
// # Retention
//
// With [Options].Retain ttl is later than the record's expiry, which is stored beside it:
//
//	slidingttl_expiry   Map      at, the record's expiry, and ttl, both as Numbers of seconds
//
// Its expiry counts only while the item's ttl is still the one in it, so that a program
// that moves ttl alone decides. A driver without Retain reads it too, and its touch removes
// it.
//
// # Conditions
//
// Every write except Delete is conditional and takes one request, because a failure returns
// the item that was found (ALL_OLD). DynamoDB bills a failed condition like a write. An
// item with an unusual form of an instant (created_at in another zone or finer than
// milliseconds, an expiry that DynamoDB ignores, a version that is no Number) costs a
// second request; a touch converts the instants to the usual form. A String stays a String,
// and a Number keeps its unit, seconds or milliseconds.
//
// The version shows that a value was overwritten. Other programs that write the items
// should change it to any other value, or compare-and-swap does not notice their writes
// within a generation. Removing it is noticed too, if there was one.
//
// # Once
//
// A write is done once, or an error says otherwise. If DynamoDB refused it (throttled, in a
// transaction, no connection), the client's retryer sends it again, as often as you
// configured. A write whose answer was lost or was a 5xx may have landed. Then only Replace
// and Touch are sent again, because their conditions name the version that they replace.
// For the others, and if the second attempt meets another write, the error matches
// driver.ErrAmbiguous. A write over a record is given up when the record's life has ended,
// because it would revive a record that others have found dead.
//
// # Errors
//
// errors.As finds the SDK's errors. An error of an item names the attribute, and in
// GetMulti the place of its key in the call. It quotes no key and no value, except an
// instant that cannot be read.
package dynamodb
