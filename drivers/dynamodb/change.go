package dynamodb

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Change is a record of DynamoDB Streams about an item, received by a [Stream] or a Lambda
// function. The stream's view must have old images, and new ones to tell of lives that an
// overwrite ended.
type Change struct {
	Old   map[string]types.AttributeValue // nil: there was no item
	New   map[string]types.AttributeValue // nil: the item was removed
	At    time.Time                       // ApproximateCreationDateTime
	ByTTL bool                            // the TTL service removed the item: see [ByTTL]
}

// ByTTL reports whether the identity in a stream's record is that of the TTL service.
// Source: "DynamoDB Streams and Time to Live", Amazon DynamoDB developer guide. In the
// replicas of a global table it is not: there the record names the replication.
func ByTTL(kind, principal string) bool {
	return kind == "Service" && principal == "dynamodb.amazonaws.com"
}

// Dead returns the record whose life a change has ended. ok is false if it ended none: the item is
// no record of d or lives on, or it was deleted while alive and Options.Deletes is false. Without
// Options.KeyOf, where that is required, no item is a record.
//
// A record that the TTL service removed, or that was removed or overwritten after it had expired,
// died at its expiry. One that was removed or overwritten earlier died then. DynamoDB rounds that
// time down to the second, DynamoDB Local to the minute. An item that cannot be read completely has
// a Problem.
func (d *Driver[T]) Dead(c Change) (dead driver.Dead, ok bool) {
	if len(c.Old) == 0 {
		return dead, false
	}
	key, ok := d.recordKey(d.keyOf(c.Old))
	if !ok {
		return dead, false
	}
	if c.New != nil {
		// Another created_at begins a new life. An item without one, from another program, is the
		// same record, to be adopted.
		was, is := d.read(c.Old), d.read(c.New)
		if was.CreatedAt == 0 || is.CreatedAt == 0 || was.CreatedAt == is.CreatedAt {
			return dead, false
		}
	}
	raw := d.rawOf(c.Old, d.read(c.Old))
	dead = driver.Dead{Key: key, Raw: raw, At: raw.ExpiresAt}
	at := max(driver.Floor(c.At), raw.CreatedAt) // c.At is rounded down
	if !c.ByTTL && (at < dead.At || dead.At == 0) || dead.At == 0 {
		dead.At, dead.Deleted = at, !c.ByTTL
	}
	return dead, c.New != nil || !dead.Deleted || d.opts.Deletes
}

// changeOf converts a record of a stream.
func changeOf(r *streams.Record) (c Change) {
	if r.Dynamodb == nil {
		return c
	}
	if r.Dynamodb.ApproximateCreationDateTime != nil {
		c.At = *r.Dynamodb.ApproximateCreationDateTime
	}
	if u := r.UserIdentity; u != nil && u.Type != nil && u.PrincipalId != nil {
		c.ByTTL = ByTTL(*u.Type, *u.PrincipalId)
	}
	c.Old = image(r.Dynamodb.OldImage)
	if r.EventName == streams.OperationTypeRemove {
		return c
	}
	if c.New = image(r.Dynamodb.NewImage); c.New == nil {
		c.Old = nil // without new images the view does not show whether a new life began
	}
	return c
}

// image is an item. An attribute of a type that the SDK does not know is nil.
func image(of map[string]streams.AttributeValue) map[string]types.AttributeValue {
	if len(of) == 0 {
		return nil
	}
	item := make(map[string]types.AttributeValue, len(of))
	for name, av := range of {
		item[name], _ = attributevalue.FromDynamoDBStreams(av)
	}
	return item
}
