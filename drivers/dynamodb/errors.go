package dynamodb

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// unquoted hides the text of an attributevalue error, which may quote a record.
type unquoted struct{ err error }

func (e unquoted) Error() string {
	var goType reflect.Type
	var wrongType *attributevalue.UnmarshalTypeError
	var wrongValue *attributevalue.UnmarshalError
	switch {
	case errors.As(e.err, &wrongType):
		goType = wrongType.Type
	case errors.As(e.err, &wrongValue):
		goType = wrongValue.Type
	}
	if goType == nil {
		return fmt.Sprintf("%T", e.err)
	}
	return "an attribute does not fit Go type " + goType.String()
}

func (e unquoted) Unwrap() error { return e.err }

// failed maps the SDK's errors to those of the driver contract.
func failed(err error) error {
	var api smithy.APIError
	switch {
	case !errors.As(err, &api):
		return err
	case slices.Contains(refusals, api.ErrorCode()):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	// "Item size has exceeded the maximum allowed size", and "Item size to update
	// has ..." for an update.
	case api.ErrorCode() == "ValidationException" && strings.HasPrefix(api.ErrorMessage(), "Item size"):
		return tooLarge(err)
	}
	return err
}

// failedPut maps DynamoDB's refusal of an item, such as one with an empty set or with an attribute
// that does not fit an index.
func failedPut(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" && !errors.Is(failed(err), driver.ErrInvalid) {
		return &driver.InvalidError{Field: "item", Value: "refused", Rule: "must be one that the table and its indexes take", Err: err}
	}
	return err
}

func tooLarge(err error) error {
	return &driver.InvalidError{Field: "item", Value: "too large", Rule: "must be at most 400 KB, names of attributes included", Err: err}
}

// refusals are the codes of errors about permissions or a missing table. Source:
// docs.aws.amazon.com, DynamoDB, Error handling; DynamoDB API, Common errors.
var refusals = []string{
	"AccessDeniedException", "ExpiredTokenException", "IncompleteSignatureException", "InvalidSignatureException",
	"MissingAuthenticationTokenException", "ResourceNotFoundException", "UnrecognizedClientException",
}

// refused returns the item that failed the write's condition, and whether a condition failed.
func refused(err error) (map[string]types.AttributeValue, bool) {
	var refusal *types.ConditionalCheckFailedException
	if !errors.As(err, &refusal) {
		return nil, false
	}
	item := refusal.Item
	refusal.Item = nil // the error may end up in a log that prints all of it
	return item, true
}
