package couchbase

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// failure maps an error of gocb or gocbcore to the driver contract's errors.
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
	case refused(err):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// refused reports whether err is about permissions, or an unknown scope or collection: gocb waits for
// these, sends nothing meanwhile, and may say at the end what it waited for.
func refused(err error) bool {
	if timeout := (*gocb.TimeoutError)(nil); errors.As(err, &timeout) {
		return timeout.LastDispatchedTo == "" && slices.Equal(timeout.RetryReasons, []gocb.RetryReason{gocb.KVCollectionOutdatedRetryReason})
	}
	return slices.ContainsFunc([]error{gocb.ErrAuthenticationFailure, gocb.ErrScopeNotFound, gocb.ErrCollectionNotFound}, func(e error) bool { return errors.Is(err, e) })
}

// written is failure for a write, whose error may be ambiguous.
func written(ctx context.Context, err error) error {
	known := failure(ctx, err)
	if known != nil && context.Cause(ctx) == driver.ErrLate {
		known = fmt.Errorf("%w: %w", driver.ErrLate, known)
	}
	if known != nil && ambiguous(known) {
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, known)
	}
	return known
}

// unanswered are errors of requests that may have been executed. A request whose connection closes
// gets io.EOF from gocbcore, which also calls every time-out of a write ambiguous. Source: gocbcore
// v10.8.1, error.go, memdclient.go, crudcomponent.go.
var unanswered = []error{
	gocb.ErrAmbiguousTimeout,
	gocb.ErrDurabilityAmbiguous,
	gocb.ErrRequestCanceled, // because the context ended, or the cluster was closed
	gocbcore.ErrSocketClosed,
	gocbcore.ErrForcedReconnect,
	gocbcore.ErrProtocol, // an answer that is none
}

// ambiguous reports whether a write that failed with err may have landed.
func ambiguous(err error) bool {
	if timeout := (*gocb.TimeoutError)(nil); errors.As(err, &timeout) && timeout.LastDispatchedTo == "" {
		return false // it waited for a connection
	}
	return slices.ContainsFunc(unanswered, func(e error) bool { return errors.Is(err, e) })
}

// tooLarge makes the server's refusal of a document with a value of size bytes an InvalidError; zero: with
// the value that it has.
func tooLarge(err error, size int) error {
	if !errors.Is(err, gocb.ErrValueTooLarge) {
		return err
	}
	const rule = "must be at most 20 MiB together with the document's xattrs, as the server allows"
	if size == 0 {
		return &driver.InvalidError{Field: "stored value", Value: "too large for an xattr", Rule: rule, Err: err}
	}
	return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("%d bytes", size), Rule: rule, Err: err}
}

// moved reports whether a write failed because the document existed, did not exist, or had another
// CAS.
func moved(err error) bool {
	return errors.Is(err, gocb.ErrDocumentExists) || errors.Is(err, gocb.ErrCasMismatch)
}

// visible converts err to gocb's types, and removes the key from its text.
func visible(err error) error {
	switch e := err.(type) {
	case *gocb.KeyValueError:
		e.DocumentID = "" // not shared: made for this call
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
