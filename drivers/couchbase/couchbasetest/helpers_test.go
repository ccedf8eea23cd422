package couchbasetest_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/couchbase/gocb/v2"
)

// management is the service to wait for before the first bucket is opened, see
// Node.Cluster. Waiting for all services of a cluster would be slow, since gocb polls
// them every half second.
var management = &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeManagement}}

func isCASMismatch(err error) bool { return errors.Is(err, gocb.ErrCasMismatch) }

// lookup looks one path up.
func lookup(col *gocb.Collection, key, path string, xattr bool) (json.RawMessage, error) {
	res, err := col.LookupIn(key, []gocb.LookupInSpec{gocb.GetSpec(path, &gocb.GetSpecOptions{IsXattr: xattr})}, nil)
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	err = res.ContentAt(0, &raw)
	return raw, err
}

// lookupRaw returns the value at one path, byte for byte.
func lookupRaw(t *testing.T, col *gocb.Collection, key, path string, xattr bool) string {
	t.Helper()
	raw, err := lookup(col, key, path, xattr)
	must(t, err)
	return string(raw)
}

// expiryOf is a document's expiry in Unix seconds, 0 for none.
func expiryOf(t *testing.T, col *gocb.Collection, key string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(lookupRaw(t, col, key, "$document.exptime", true), 10, 64)
	must(t, err)
	return n
}

func isNotFound(err error) bool { return errors.Is(err, gocb.ErrDocumentNotFound) }
