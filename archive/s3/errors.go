package s3

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/slidingttl/slidingttl/archive"
)

// storeError wraps the SDK's error in the archive's or io/fs's error that fits.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	if ofKeys(err) {
		return fmt.Errorf("%w: %w", archive.ErrKeyService, err)
	}
	code, status := "", 0
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = response.HTTPStatusCode()
	}
	kind := error(nil)
	switch {
	case strings.HasPrefix(code, "KMS."):
		kind = archive.ErrKeyService
	case code == "NoSuchKey" || code == "NoSuchVersion" || code == "NotFound": // the last of a HeadObject
		kind = fs.ErrNotExist
	case code == "InvalidRange" || status == http.StatusRequestedRangeNotSatisfiable:
		return io.EOF
	case status == http.StatusPreconditionFailed:
		kind = fs.ErrExist
	case code == "QuotaExceeded" || code == "InsufficientStorage" || code == "XMinioStorageFull" || status == http.StatusInsufficientStorage:
		kind = archive.ErrNoSpace
	case status == http.StatusForbidden || status == http.StatusUnauthorized || code == "NoSuchBucket":
		kind = archive.ErrRefused
	default:
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// ofKeys reports whether err comes from a call to KMS.
func ofKeys(err error) bool {
	for err != nil {
		op, ok := errors.AsType[*smithy.OperationError](err)
		if !ok {
			return false
		}
		if op.ServiceID == "KMS" {
			return true
		}
		err = op.Err
	}
	return false
}

// contended reports whether a write failed because of a concurrent one to the same name. It may
// be retried.
func contended(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "ConditionalRequestConflict"
}
