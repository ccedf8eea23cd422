package wire

import "github.com/couchbase/gocbcore/v10/memd"

// Statuses of the server that the codec has no name for.
const (
	StatusExpiryOverflow    = memd.StatusCode(0x28)
	StatusUnknownFrame      = memd.StatusCode(0x80)
	StatusXattrInvalid      = memd.StatusCode(0x87)
	StatusInvalidXattrOrder = memd.StatusCode(0xd4)
	StatusUnknownVattrMacro = memd.StatusCode(0xd5)
)
