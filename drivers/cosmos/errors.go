package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"

	"encoding/json"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// unquoted hides an error's text, which may quote a URL with the key, or a record.
type unquoted struct{ err error }

func (e unquoted) Error() string {
	var answer *azcore.ResponseError
	var network *url.Error
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(e.err, &answer):
		text := fmt.Sprintf("Cosmos DB answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
		if sub := subStatus(answer); sub != "" && sub != "0" {
			text += ", sub-status " + sub
		}
		return text
	case errors.Is(e.err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	case errors.Is(e.err, context.Canceled):
		return context.Canceled.Error()
	case errors.As(e.err, &network):
		return network.Err.Error()
	case errors.As(e.err, &wrongType):
		return "a property does not fit Go type " + wrongType.Type.String()
	}
	return reflect.TypeOf(e.err).String()
}

func (e unquoted) Unwrap() error { return e.err }

func subStatus(answer *azcore.ResponseError) string {
	if answer.RawResponse == nil {
		return ""
	}
	return answer.RawResponse.Header.Get("x-ms-substatus")
}

// statusRetryWith means that a concurrent write prevented this one. Source:
// https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb
const statusRetryWith = 449

// status returns the answer's status, zero if there is none. It returns 400 for a 404 that is not
// about the item (no container, or a replica behind the session).
func status(err error) int {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return 0
	}
	if answer.StatusCode == http.StatusNotFound {
		if sub := subStatus(answer); sub != "" && sub != "0" {
			return http.StatusBadRequest
		}
	}
	return answer.StatusCode
}

// Sub-statuses: of a 404 for a replica behind the session; of a 403 for a region that no longer
// takes writes, and for the account itself. Source: as above.
const (
	subBehind       = "1002"
	subWriteMoved   = "3"
	subAccountMoved = "1008"
)

// passing reports whether err is temporary: all replicas are behind the session, or a physical
// partition is being split (410, nothing was executed). Source:
// https://learn.microsoft.com/azure/cosmos-db/nosql/conceptual-resilient-sdk-applications
func passing(err error) bool {
	var answer *azcore.ResponseError
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusGone ||
		answer.StatusCode == http.StatusNotFound && subStatus(answer) == subBehind)
}

// refused reports whether err, which is not about an item, is about permissions or the request.
func refused(err error) bool {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return false
	}
	sub := subStatus(answer)
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden:
		return sub != subWriteMoved && sub != subAccountMoved
	case http.StatusNotFound:
		return sub != subBehind
	}
	return false
}

// failed maps a client's error to the driver contract's errors.
func failed(ctx context.Context, err error) error {
	if status(err) == http.StatusRequestEntityTooLarge {
		return &driver.InvalidError{Field: "item", Value: "too large", Rule: "must be at most 2 MB as JSON", Err: unquoted{err}}
	}
	if ctx.Err() == nil && refused(err) {
		return fmt.Errorf("%w: %w", driver.ErrRefused, unquoted{err})
	}
	return kit.Ended(ctx, unquoted{err})
}
