package dynamodb

import (
	"cmp"
	"context"
	"fmt"
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
// time down to the second, DynamoDB Local to the minute. If the item before or the one after has no
// created_at, an overwrite ends only the life of a record that had expired, else it adopts it. An item that cannot be read completely has
// a Problem, and so has one whose life is in Options.LifeTable: use DeadIn, which reads it.
func (d *Driver[T]) Dead(c Change) (dead driver.Dead, ok bool) { return d.dead(c, nil) }

// DeadIn returns the records whose lives the changes have ended.
//
// With Options.LifeTable it makes one request for each 100 changes, for their expiries there. A record
// has a Problem if its life item cannot be read, or if its key has had more than eight lives since. If
// the life item is gone, the record died at the expiry of its last write or later: it was never touched,
// or DynamoDB has removed it more than 14 days late. It is told to have died then. An error is the store's own.
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
	old := make([]map[string]types.AttributeValue, len(changes))
	for i := range changes {
		old[i] = changes[i].Old
	}
	lives, _, err = d.livesOf(ctx, old, true)
	return lives, err
}

// trueExpiry sets the expiry of s, which is over, to that in the life item under its key, or says in
// s why it is not known. Without a life item it is that of the last write: there was no touch, or
// DynamoDB has removed the value's item so late that the life item went first.
func (d *core) trueExpiry(s *stored, k primaryKey, lives map[primaryKey]map[string]types.AttributeValue) {
	if s.generation == 0 {
		return
	}
	if lives == nil {
		s.unseen = d.unseen("must be read by DeadIn, which reads Options.LifeTable too")
		return
	}
	l, err := d.readLife(lives[k])
	if err != nil {
		s.unseen = err
		return
	}
	if s.with(l); l.of(s) {
		return
	}
	if at, ok := l.former(s); ok {
		s.ExpiresAt = cmp.Or(at, s.ExpiresAt)
	} else {
		s.unseen = d.unseen(fmt.Sprintf("must be read before the key has had %d lives more: its expiry is lost", mostFormer))
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
	s := d.read(c.Old)
	d.trueExpiry(&s, d.keyOf(c.Old), lives)
	at := driver.Floor(c.At) // it is rounded down
	if c.New != nil {
		is := d.read(c.New)
		switch {
		case s.CreatedAt == 0 || is.CreatedAt == 0:
			if is.CreatedAt != 0 { // a client may be late, and its clock behind
				at = max(is.CreatedAt, at.Add(-2*d.opts.MaxSkew))
			}
			if !replacedDead(s, is, at) {
				return dead, false
			}
		case s.CreatedAt == is.CreatedAt:
			return dead, false
		}
	}
	raw := d.rawOf(c.Old, s)
	dead = driver.Dead{Key: key, Raw: raw, At: raw.ExpiresAt}
	at = max(at, raw.CreatedAt)
	if !c.ByTTL && (at < dead.At || dead.At == 0) || dead.At == 0 {
		dead.At, dead.Deleted = at, !c.ByTTL
	}
	return dead, c.New != nil || !dead.Deleted || d.opts.Deletes
}

// replacedDead reports whether is, written at that time, has replaced the dead record was. One of them
// has no created_at. If was lived, it is the same record: adopted, or to be adopted. If its expiry has
// not moved, it is still to be removed.
func replacedDead(was, is stored, at driver.Instant) bool {
	return was.ExpiresAt != 0 && was.ExpiresAt <= at && was.ExpiresAt.RoundUp(time.Second) != is.ExpiresAt.RoundUp(time.Second)
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
