package dynamodb

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// unquoted is an error of attributevalue without its text, which may quote what a
// record holds.
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

// failed gives an error of the SDK the form that the contract asks for.
func failed(err error) error {
	var api smithy.APIError
	// "Item size has exceeded the maximum allowed size", and "Item size to update
	// has ..." for an update.
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" &&
		strings.HasPrefix(api.ErrorMessage(), "Item size") {
		return &driver.InvalidError{
			Field: "item",
			Value: "too large",
			Rule:  "must be at most 400 KB, names of attributes included",
			Err:   err,
		}
	}
	return err
}

// refused returns the item that kept err's write from being done, and whether a
// condition did.
func refused(err error) (map[string]types.AttributeValue, bool) {
	var refusal *types.ConditionalCheckFailedException
	if !errors.As(err, &refusal) {
		return nil, false
	}
	item := refusal.Item
	refusal.Item = nil // the error may end up in a log that prints all of it
	return item, true
}
