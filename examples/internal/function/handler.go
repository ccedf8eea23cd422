package function

import (
	"context"
	"errors"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Handler takes the records of a stream.
type Handler struct {
	dead     func(dynamodb.Change) (driver.Dead, bool)
	archiver *archive.Archiver
}

// Handle archives what has died. After an error Lambda calls it with the same records
// again. If one record fails, the records before it are archived, and Handle asks Lambda to
// call again from that record on. For that the event source mapping needs
// ReportBatchItemFailures.
func (h *Handler) Handle(ctx context.Context, e events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
	var none events.DynamoDBEventResponse
	var dead []driver.Dead
	var from []string // the sequence number of each
	for i := range e.Records {
		r := &e.Records[i]
		if d, ok := h.dead(change(r)); ok {
			dead, from = append(dead, d), append(from, r.Change.SequenceNumber)
		}
	}
	err := h.archiver.Archive(ctx, dead)
	if !errors.Is(err, archive.ErrClock) {
		return none, err
	}
	for i := range dead {
		switch err := h.archiver.Archive(ctx, dead[i:i+1]); {
		case errors.Is(err, archive.ErrClock):
			return events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{{ItemIdentifier: from[i]}}}, nil
		case err != nil:
			return none, err
		}
	}
	return none, nil
}

// change is what a record says.
func change(r *events.DynamoDBEventRecord) dynamodb.Change {
	c := dynamodb.Change{
		Old: image(r.Change.OldImage),
		New: image(r.Change.NewImage),
		At:  r.Change.ApproximateCreationDateTime.Time,
	}
	if u := r.UserIdentity; u != nil {
		c.ByTTL = dynamodb.ByTTL(u.Type, u.PrincipalID)
	}
	if r.EventName != string(events.DynamoDBOperationTypeRemove) && c.New == nil {
		c.Old = nil // a view without new images does not tell what became of the item
	}
	return c
}

func image(of map[string]events.DynamoDBAttributeValue) map[string]types.AttributeValue {
	if len(of) == 0 {
		return nil
	}
	item := make(map[string]types.AttributeValue, len(of))
	for name, av := range of {
		item[name] = attribute(av)
	}
	return item
}

// attribute is av as the SDK has it.
func attribute(av events.DynamoDBAttributeValue) types.AttributeValue {
	switch av.DataType() {
	case events.DataTypeString:
		return &types.AttributeValueMemberS{Value: av.String()}
	case events.DataTypeNumber:
		return &types.AttributeValueMemberN{Value: av.Number()}
	case events.DataTypeBinary:
		return &types.AttributeValueMemberB{Value: av.Binary()}
	case events.DataTypeBoolean:
		return &types.AttributeValueMemberBOOL{Value: av.Boolean()}
	case events.DataTypeStringSet:
		return &types.AttributeValueMemberSS{Value: av.StringSet()}
	case events.DataTypeNumberSet:
		return &types.AttributeValueMemberNS{Value: av.NumberSet()}
	case events.DataTypeBinarySet:
		return &types.AttributeValueMemberBS{Value: av.BinarySet()}
	case events.DataTypeList:
		list := make([]types.AttributeValue, len(av.List()))
		for i, v := range av.List() {
			list[i] = attribute(v)
		}
		return &types.AttributeValueMemberL{Value: list}
	case events.DataTypeMap:
		m := make(map[string]types.AttributeValue, len(av.Map()))
		for name, v := range av.Map() {
			m[name] = attribute(v)
		}
		return &types.AttributeValueMemberM{Value: m}
	default:
		return &types.AttributeValueMemberNULL{Value: true}
	}
}
