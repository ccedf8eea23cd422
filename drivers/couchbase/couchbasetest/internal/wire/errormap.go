package wire

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/couchbase/gocbcore/v10/memd"
)

// ErrorMapVersion is the only version of the error map here, the one gocb asks for.
const ErrorMapVersion = 2

// errorNames are the statuses a client may see, with the server's names and
// attributes (kv_engine, docs/ErrorMap.md). A client uses them for statuses it
// has no code for: attributes that begin with "retry" make it try again.
var errorNames = map[memd.StatusCode]struct {
	name  string
	attrs []string
}{
	memd.StatusSuccess:                      {"SUCCESS", []string{"success"}},
	memd.StatusKeyNotFound:                  {"KEY_ENOENT", []string{"item-only"}},
	memd.StatusKeyExists:                    {"KEY_EEXISTS", []string{"item-only"}},
	memd.StatusTooBig:                       {"E2BIG", []string{"item-only", "invalid-input"}},
	memd.StatusInvalidArgs:                  {"EINVAL", []string{"internal", "invalid-input"}},
	memd.StatusNotStored:                    {"NOT_STORED", []string{"internal", "item-only"}},
	memd.StatusBadDelta:                     {"DELTA_BADVAL", []string{"item-only", "invalid-input"}},
	memd.StatusNotMyVBucket:                 {"NOT_MY_VBUCKET", []string{"fetch-config", "invalid-input"}},
	memd.StatusNoBucket:                     {"NO_BUCKET", []string{"conn-state-invalidated"}},
	memd.StatusLocked:                       {"LOCKED", []string{"item-locked", "item-only", "retry-now"}},
	memd.StatusNotLocked:                    {"NOT_LOCKED", []string{"item-only"}},
	memd.StatusAuthStale:                    {"AUTH_STALE", []string{"conn-state-invalidated", "auth"}},
	memd.StatusAuthError:                    {"AUTH_ERROR", []string{"conn-state-invalidated", "auth"}},
	memd.StatusAuthContinue:                 {"AUTH_CONTINUE", []string{"special-handling"}},
	memd.StatusRangeError:                   {"ERANGE", []string{"invalid-input"}},
	memd.StatusAccessError:                  {"EACCESS", []string{"support"}},
	memd.StatusNotInitialized:               {"NOT_INITIALIZED", []string{"conn-state-invalidated"}},
	StatusExpiryOverflow:                    {"EXPIRY_OVERFLOW", []string{"item-only", "system-constraint", "no-retry"}},
	StatusUnknownFrame:                      {"UNKNOWN_FRAME_INFO", []string{"support"}},
	memd.StatusUnknownCommand:               {"UNKNOWN_COMMAND", []string{"support"}},
	memd.StatusOutOfMemory:                  {"ENOMEM", []string{"temp", "retry-later"}},
	memd.StatusNotSupported:                 {"NOT_SUPPORTED", []string{"support"}},
	memd.StatusInternalError:                {"EINTERNAL", []string{"internal", "conn-state-invalidated"}},
	memd.StatusBusy:                         {"EBUSY", []string{"temp", "retry-now"}},
	memd.StatusTmpFail:                      {"ETMPFAIL", []string{"temp", "retry-now"}},
	StatusXattrInvalid:                      {"XATTR_EINVAL", []string{"invalid-input"}},
	memd.StatusCollectionUnknown:            {"UNKNOWN_COLLECTION", []string{"invalid-input"}},
	memd.StatusScopeUnknown:                 {"UNKNOWN_SCOPE", []string{"invalid-input"}},
	memd.StatusDurabilityInvalidLevel:       {"DurabilityInvalidLevel", []string{"invalid-input"}},
	memd.StatusDurabilityImpossible:         {"DurabilityImpossible", []string{"item-only", "invalid-input"}},
	memd.StatusSyncWriteInProgress:          {"SyncWriteInProgress", []string{"item-only", "retry-later"}},
	memd.StatusSyncWriteAmbiguous:           {"SyncWriteAmbiguous", []string{"item-only"}},
	memd.StatusSyncWriteReCommitInProgress:  {"SyncWriteReCommitInProgress", []string{"item-only", "retry-later"}},
	memd.StatusSubDocPathNotFound:           {"SUBDOC_PATH_ENOENT", []string{"item-only", "subdoc"}},
	memd.StatusSubDocPathMismatch:           {"SUBDOC_PATH_MISMATCH", []string{"item-only", "subdoc"}},
	memd.StatusSubDocPathInvalid:            {"SUBDOC_PATH_EINVAL", []string{"subdoc", "invalid-input"}},
	memd.StatusSubDocPathTooBig:             {"SUBDOC_PATH_E2BIG", []string{"subdoc", "invalid-input"}},
	memd.StatusSubDocCantInsert:             {"SUBDOC_VALUE_CANTINSERT", []string{"subdoc", "invalid-input"}},
	memd.StatusSubDocNotJSON:                {"SUBDOC_DOC_NOTJSON", []string{"item-only", "subdoc"}},
	memd.StatusSubDocBadRange:               {"SUBDOC_NUM_ERANGE", []string{"item-only", "subdoc"}},
	memd.StatusSubDocBadDelta:               {"SUBDOC_DELTA_EINVAL", []string{"subdoc", "invalid-input"}},
	memd.StatusSubDocPathExists:             {"SUBDOC_PATH_EEXISTS", []string{"item-only", "subdoc"}},
	memd.StatusSubDocBadCombo:               {"SUBDOC_INVALID_COMBO", []string{"subdoc", "invalid-input"}},
	memd.StatusSubDocBadMulti:               {"SUBDOC_MULTI_PATH_FAILURE", []string{"item-only", "subdoc"}},
	memd.StatusSubDocXattrInvalidFlagCombo:  {"SUBDOC_XATTR_INVALID_FLAG_COMBO", []string{"invalid-input", "subdoc"}},
	memd.StatusSubDocXattrUnknownMacro:      {"SUBDOC_XATTR_UNKNOWN_MACRO", []string{"invalid-input", "subdoc"}},
	memd.StatusSubDocXattrUnknownVAttr:      {"SUBDOC_XATTR_UNKNOWN_VATTR", []string{"invalid-input", "subdoc"}},
	memd.StatusSubDocXattrCannotModifyVAttr: {"SUBDOC_XATTR_CANT_MODIFY_VATTR", []string{"invalid-input", "subdoc"}},
	StatusInvalidXattrOrder:                 {"SUBDOC_INVALID_XATTR_ORDER", []string{"invalid-input", "subdoc"}},
	StatusUnknownVattrMacro:                 {"SUBDOC_XATTR_UNKNOWN_VATTR_MACRO", []string{"invalid-input", "subdoc"}},
}

// ErrorMap is the error map as it is sent.
var ErrorMap = sync.OnceValue(func() []byte {
	type entry struct {
		Name  string   `json:"name"`
		Desc  string   `json:"desc"`
		Attrs []string `json:"attrs"`
	}
	entries := map[string]entry{}
	for status, e := range errorNames {
		entries[strconv.FormatUint(uint64(status), 16)] = entry{e.name, status.String(), e.attrs}
	}
	b, err := json.Marshal(map[string]any{"version": ErrorMapVersion, "revision": 1, "errors": entries})
	if err != nil {
		panic("couchbasetest: " + err.Error()) // a type that JSON does not have: a bug here
	}
	return b
})
