package dynamodb

import (
	"context"
	"errors"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// attempts follows one write through the attempts that the SDK makes of it. One answered
// with 5xx, which DynamoDB's router gives when the storage behind it does not answer in time,
// may have landed like one without an answer. From then on the write goes out again only if
// it is named. One on the condition that there is no record would bring back what somebody
// has deleted meanwhile.
type attempts struct{ driver.Attempts }

// follow makes f part of a call.
func (f *attempts) follow(o *dynamodb.Options) {
	// By itself the SDK gives up at once on an item that is part of a transaction.
	o.Retryer = careful{retry.AddWithErrorCodes(o.Retryer, "TransactionConflictException").(aws.RetryerV2), f}
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Deserialize.Add(f, middleware.Before)
	})
}

// ID implements middleware.DeserializeMiddleware.
func (f *attempts) ID() string { return "slidingttl:attempts" }

// HandleDeserialize implements middleware.DeserializeMiddleware. It sees each attempt that
// is handed to the HTTP client, and none that failed before.
func (f *attempts) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	f.Sent()
	out, metadata, err := next.HandleDeserialize(ctx, in)
	if err == nil || undone(err) {
		f.Answered()
	}
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

// careful is the client's retryer, for one write.
type careful struct {
	aws.RetryerV2
	attempts *attempts
}

// IsErrorRetryable implements aws.Retryer.
func (c careful) IsErrorRetryable(err error) bool {
	return (c.attempts.Named || !c.attempts.Unsure()) && c.RetryerV2.IsErrorRetryable(err)
}
