package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// fate follows one write through the attempts that the SDK makes of it, so that it is done
// once. An attempt that got no answer may have landed, and so may one answered with 5xx,
// which DynamoDB's router gives when the storage behind it does not answer in time. The
// write goes out again then only if its condition names the record it is for: it can land
// but once, and knows what it has left when it meets that. One on the condition that there
// is no record would bring back what somebody has deleted meanwhile.
type fate struct {
	named  bool // the condition names the record
	unsure bool // an attempt may have landed
}

// follow makes f part of a call.
func (f *fate) follow(o *dynamodb.Options) {
	// By itself the SDK gives up at once on an item that is part of a transaction.
	o.Retryer = careful{retry.AddWithErrorCodes(o.Retryer, "TransactionConflictException").(aws.RetryerV2), f}
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Deserialize.Add(f, middleware.Before)
	})
}

// ID implements middleware.DeserializeMiddleware.
func (f *fate) ID() string { return "slidingttl:fate" }

// HandleDeserialize implements middleware.DeserializeMiddleware. It sees each attempt that
// is handed to the HTTP client, and none that failed before.
func (f *fate) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	f.unsure = f.unsure || err != nil && !undone(err)
	return out, metadata, err
}

// undone reports whether err, of an attempt, says that nothing was written.
func undone(err error) bool {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500 {
		return true
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// failed is err, with which the write ended, in the form that the contract asks for.
func (f *fate) failed(ctx context.Context, err error) error {
	err = failed(err)
	if context.Cause(ctx) == errLate {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	if f.unsure {
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, err)
	}
	return err
}

// careful is the client's retryer, for one write.
type careful struct {
	aws.RetryerV2
	fate *fate
}

// IsErrorRetryable implements aws.Retryer.
func (c careful) IsErrorRetryable(err error) bool {
	return (c.fate.named || !c.fate.unsure) && c.RetryerV2.IsErrorRetryable(err)
}
