package couchbase

import (
	"context"
	"errors"
	"fmt"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// failure gives an error of gocb or gocbcore the form that callers of a driver know.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = visible(err)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, gocb.ErrDocumentNotFound):
		return fmt.Errorf("%w: %w", driver.ErrNotFound, err)
	case errors.Is(err, gocb.ErrDocumentLocked):
		return fmt.Errorf("%w: %w", driver.ErrLocked, err)
	}
	return err
}

// tooLarge makes the server's refusal of a value an InvalidError.
func tooLarge(err error, size int) error {
	if !errors.Is(err, gocb.ErrValueTooLarge) {
		return err
	}
	return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("%d bytes", size), Rule: "must be at most as large as the server allows, 20 MiB", Err: err}
}

// moved reports whether a write failed because the document was there already, or
// was not, or no longer, the one whose CAS it carried.
func moved(err error) bool {
	return errors.Is(err, gocb.ErrDocumentExists) || errors.Is(err, gocb.ErrCasMismatch)
}

// visible gives err gocb's types, and takes the key out of its text.
func visible(err error) error {
	switch e := err.(type) {
	case *gocb.KeyValueError:
		e.DocumentID = "" // each is made for one call and handed to no one else
	case *gocbcore.KeyValueError:
		return &gocb.KeyValueError{
			InnerError:         e.InnerError,
			StatusCode:         e.StatusCode,
			BucketName:         e.BucketName,
			ScopeName:          e.ScopeName,
			CollectionName:     e.CollectionName,
			CollectionID:       e.CollectionID,
			ErrorName:          e.ErrorName,
			ErrorDescription:   e.ErrorDescription,
			Opaque:             e.Opaque,
			Context:            e.Context,
			Ref:                e.Ref,
			RetryReasons:       reasons(e.RetryReasons),
			RetryAttempts:      e.RetryAttempts,
			LastDispatchedTo:   e.LastDispatchedTo,
			LastDispatchedFrom: e.LastDispatchedFrom,
			LastConnectionID:   e.LastConnectionID,
		}
	case gocbcore.SubDocumentError:
		e.InnerError = visible(e.InnerError)
		return e
	case *gocbcore.TimeoutError:
		return &gocb.TimeoutError{
			InnerError:         e.InnerError,
			OperationID:        e.OperationID,
			Opaque:             e.Opaque,
			TimeObserved:       e.TimeObserved,
			RetryReasons:       reasons(e.RetryReasons),
			RetryAttempts:      e.RetryAttempts,
			LastDispatchedTo:   e.LastDispatchedTo,
			LastDispatchedFrom: e.LastDispatchedFrom,
			LastConnectionID:   e.LastConnectionID,
		}
	}
	return err
}

func reasons(core []gocbcore.RetryReason) []gocb.RetryReason {
	var all []gocb.RetryReason
	for _, r := range core {
		all = append(all, r)
	}
	return all
}
