package dynamodb

import (
	"context"
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
// a Problem. With Options.LifeTable use DeadIn: Dead knows only the expiry in the item.
func (d *Driver[T]) Dead(c Change) (dead driver.Dead, ok bool) { return d.dead(c, nil) }

// DeadIn returns the records whose lives the changes have ended.
//
// With Options.LifeTable it makes one request for each 100 changes, for their expiries there. An error is the store's own.
func (d *Driver[T]) DeadIn(ctx context.Context, changes []Change) ([]driver.Dead, error) {
	lives, err := d.livesAt(ctx, changes)
	if err != nil {
		return nil, err
	}
	var all []driver.Dead
	for _, c := range changes {
		if dead, ok := d.dead(c, lives); ok {
			all = append(all, dead)
		}
	}
	return all, nil
}

// livesAt reads the life items of the records that changes may have ended.
func (d *core) livesAt(ctx context.Context, changes []Change) (lives map[primaryKey]map[string]types.AttributeValue, err error) {
	var old []map[string]types.AttributeValue
	seen := make(map[primaryKey]bool)
	for _, c := range changes {
		if k := d.keyOf(c.Old); len(c.Old) > 0 && !seen[k] {
			seen[k] = true
			old = append(old, c.Old)
		}
	}
	lives, _, err = d.livesOf(ctx, old, true)
	return lives, err
}

// trueExpiry sets the expiry of old to that in its life item, or to what the life that replaced it says.
func (d *core) trueExpiry(s *stored, c Change, lives map[primaryKey]map[string]types.AttributeValue) {
	if s.generation == 0 {
		return
	}
	if l, err := d.readLife(lives[d.keyOf(c.Old)]); err == nil {
		s.with(l)
	}
	if m, ok := c.New[d.opts.RetainedExpiry].(*types.AttributeValueMemberM); ok {
		if at, err := parseExpiry(retainedBefore, m.Value[retainedBefore]); err == nil && at != 0 {
			s.ExpiresAt = at
		}
	}
}

func (d *core) dead(c Change, lives map[primaryKey]map[string]types.AttributeValue) (dead driver.Dead, ok bool) {
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
	s := d.read(c.Old)
	d.trueExpiry(&s, c, lives)
	raw := d.rawOf(c.Old, s)
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
