package couchbase

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
)

// A scan whose connection is closed as its request is written has lost it, as one whose request was sent.
func TestLost(t *testing.T) {
	closed := &net.OpError{Op: "write", Err: net.ErrClosed}
	for err, want := range map[error]bool{
		closed:                                  true,
		&gocb.KeyValueError{InnerError: closed}: true,
		fmt.Errorf("%w", gocbcore.ErrMemdClientClosed): true,
		gocbcore.ErrTemporaryFailure:                   false,
		errors.New("other"):                            false,
	} {
		if lost(err) != want {
			t.Errorf("%v: %v, want %v", err, !want, want)
		}
	}
	if lost(nil) {
		t.Error("without an error a connection is lost")
	}
}
