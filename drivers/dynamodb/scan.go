package dynamodb

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// maxSegments is DynamoDB's limit on the segments of a parallel scan.
const maxSegments = 1_000_000

// mark is a position in a parallel scan.
type mark struct {
	Segment int32     `json:"s"`
	Of      int32     `json:"of"`
	Last    []keyPart `json:"k,omitempty"` // key attributes of the item that was last read: of the table, and of an index
}

// keyPart is a key attribute. Its value is bytes, because it need not be text.
type keyPart struct {
	Name  string                    `json:"n"`
	Type  types.ScalarAttributeType `json:"t"`
	Value []byte                    `json:"v"`
}

// after stores the key after which the scan continues.
func (m *mark) after(key map[string]types.AttributeValue) {
	m.Last = nil
	for name, av := range key {
		kind := types.ScalarAttributeTypeS
		switch av.(type) {
		case *types.AttributeValueMemberN:
			kind = types.ScalarAttributeTypeN
		case *types.AttributeValueMemberB:
			kind = types.ScalarAttributeTypeB
		}
		m.Last = append(m.Last, keyPart{name, kind, []byte(plain(av))})
	}
}

// start returns that key; nil: the beginning.
func (m *mark) start() map[string]types.AttributeValue {
	if len(m.Last) == 0 {
		return nil
	}
	key := make(map[string]types.AttributeValue, len(m.Last))
	for _, l := range m.Last {
		key[l.Name] = (&KeyAttribute{Type: l.Type}).attribute(string(l.Value))
	}
	return key
}

func parseMark(c driver.Cursor) (m mark, err error) {
	err = driver.DecodeCursor(c, &m)
	if err == nil && (m.Of < 1 || m.Of > maxSegments || m.Segment < 0 || m.Segment >= m.Of) {
		err = driver.BadCursor(c)
	}
	return m, err
}

// Segments implements driver.Scanner: up to a million segments of a parallel scan.
//
// It sends no request, but one DescribeTable for Options.ScanIndex with ScanSizes. A hash of its
// partition key decides an item's segment. It needs Options.KeyOf where that
// is required.
func (d *Driver[T]) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	cursors, err := d.segments(n)
	if err != nil || d.opts.ScanIndex == "" || !d.opts.ScanSizes {
		return cursors, err
	}
	out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	if err != nil {
		return nil, failed(err)
	}
	if err := d.checkIndex(out.Table); err != nil {
		return nil, err
	}
	return cursors, nil
}

func (d *core) segments(n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	if err := d.opts.checkKeyOf(); err != nil {
		return nil, err
	}
	cursors := make([]driver.Cursor, min(n, maxSegments))
	for i := range cursors {
		cursors[i] = driver.EncodeCursor(mark{Segment: int32(i), Of: int32(len(cursors))})
	}
	return cursors, nil
}

// Scan implements driver.Scanner, with one Scan of the table, or of Options.ScanIndex. It reads the
// attributes of keys and lives. It is billed for all of each item, read strongly consistent with
// Options.ConsistentRead and at half the price without. Page.Cost is in read capacity units. Items
// whose keys do not fit Options are no records. With Options.LifeTable it reads that too, and a
// record's HeldUntil is until when Options.Retain wants it: DynamoDB may hold it longer, see
// Options.Hold.
func (d *Driver[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	return d.scan(ctx, from, limit, d.opts.ScanIndex)
}

// scan is Scan of an index, or of the table.
func (d *core) scan(ctx context.Context, from driver.Cursor, limit int, index string) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	at, err := parseMark(from)
	if err != nil {
		return driver.Page{}, err
	}
	if err := d.opts.checkKeyOf(); err != nil {
		return driver.Page{}, err
	}
	most := int32(min(limit, 1<<20))
	consistent := d.opts.ConsistentRead && index == "" // not possible for a global index
	in := &dynamodb.ScanInput{
		TableName:              &d.table,
		Segment:                &at.Segment,
		TotalSegments:          &at.Of,
		Limit:                  &most,
		ConsistentRead:         &consistent,
		ExclusiveStartKey:      at.start(),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	if !d.opts.ScanSizes {
		names, projection := d.projection()
		in.ExpressionAttributeNames, in.ProjectionExpression = names, &projection
	}
	if index != "" {
		in.IndexName = &index
	}
	out, err := d.client.Scan(ctx, in)
	if err != nil {
		return driver.Page{}, failed(err)
	}
	page := driver.Page{Records: make([]driver.Scanned, 0, len(out.Items))}
	if out.ConsumedCapacity != nil && out.ConsumedCapacity.CapacityUnits != nil {
		page.Cost = *out.ConsumedCapacity.CapacityUnits
	}
	d.stats.consumed(&d.stats.ReadUnits, out.ConsumedCapacity)
	lives, cost, err := d.livesOf(ctx, out.Items, d.opts.ConsistentRead)
	if err != nil {
		return driver.Page{}, err
	}
	page.Cost += cost
	for _, item := range out.Items {
		k := d.keyOf(item)
		key, ok := d.recordKey(k)
		if !ok {
			page.Passed++
			continue
		}
		s := d.read(item)
		if s.generation != 0 {
			again := item
			if again, s, err = d.join(ctx, k, item, lives[k]); errors.Is(err, driver.ErrNotFound) {
				continue
			} else if err != nil {
				if s = d.read(item); !errors.Is(err, driver.ErrInvalid) {
					return driver.Page{}, err
				}
				s.odd, again = err, item
			}
			item = again
			s.heldUntil = d.heldAfter(s)
		}
		if s.unseen != nil { // a walk that believed the item would take a live record for a dead one
			s.odd = s.unseen
		}
		r := driver.Scanned{Key: key, Meta: s.Meta, HeldUntil: s.heldUntil, Fault: d.fault(s), Problem: s.odd}
		if d.opts.ScanSizes {
			r.Size, r.Full = d.room(item)
		}
		page.Records = append(page.Records, r)
	}
	if len(out.LastEvaluatedKey) > 0 {
		at.after(out.LastEvaluatedKey)
		page.Next = driver.EncodeCursor(at)
	}
	return page, nil
}

// projection returns the projection of keys and lives, with its names.
func (d *core) projection() (names map[string]string, expression string) {
	o := &d.opts
	names = map[string]string{"#k": o.PartitionKey.Name, "#e": o.Expiry, "#c": o.CreatedAt, "#v": o.Version, "#x": o.RetainedExpiry}
	expression = "#k, #e, #c, #v, #x"
	if o.SortKey.Name != "" {
		names["#s"] = o.SortKey.Name
		expression += ", #s"
	}
	return names, expression
}

// fault returns why DynamoDB ignores the expiry of s, which the driver reads.
func (d *core) fault(s stored) string {
	switch av := s.expiry.(type) {
	case *types.AttributeValueMemberS:
		if s.ExpiresAt != 0 {
			return "attribute \"" + d.opts.Expiry + "\" is a String"
		}
	case *types.AttributeValueMemberN:
		if _, millis, _, _ := kit.ParseNumber(av.Value); millis {
			return "attribute \"" + d.opts.Expiry + "\" is in milliseconds"
		}
	}
	return ""
}
