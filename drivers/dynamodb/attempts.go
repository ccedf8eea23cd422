package dynamodb

import (
	"context"
	"errors"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/slidingttl/slidingttl/internal/kit"
)

// attempts counts the SDK's attempts of one write. One answered with 5xx, which DynamoDB's router
// returns if its storage does not answer in time, may have landed like one without an answer. After
// that the write is resent only if it is named. An insert would otherwise bring back a record that
// was deleted meanwhile.
type attempts struct{ kit.Attempts }

// follow attaches f to a call.
func (f *attempts) follow(o *dynamodb.Options) {
	// By default the SDK does not retry after a conflict with a transaction.
	o.Retryer = careful{retry.AddWithErrorCodes(o.Retryer, "TransactionConflictException").(aws.RetryerV2), f}
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Deserialize.Add(f, middleware.Before)
	})
}

// ID implements middleware.DeserializeMiddleware.
func (f *attempts) ID() string { return "slidingttl:attempts" }

// HandleDeserialize implements middleware.DeserializeMiddleware. It sees each attempt that reaches
// the HTTP client.
func (f *attempts) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	f.Sent()
	out, metadata, err := next.HandleDeserialize(ctx, in)
	if err == nil || undone(err) {
		f.Answered()
	}
	return out, metadata, err
}

// undone reports whether an attempt's error means that nothing was written.
func undone(err error) bool {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500 {
		return true
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// careful is the client's retryer for one write.
type careful struct {
	aws.RetryerV2
	attempts *attempts
}

// IsErrorRetryable implements aws.Retryer.
func (c careful) IsErrorRetryable(err error) bool {
	return (c.attempts.Named || !c.attempts.Unsure()) && c.RetryerV2.IsErrorRetryable(err)
}
