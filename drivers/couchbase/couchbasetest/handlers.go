package couchbasetest

import "github.com/couchbase/gocbcore/v10/memd"

// handlers has the commands that the node knows. Others are answered with "unknown
// command".
var handlers = [256]*handler{
	memd.CmdHello:         {serve: (*conn).hello, open: true},
	memd.CmdGetErrorMap:   {serve: (*conn).getErrorMap, open: true},
	memd.CmdSASLListMechs: {serve: (*conn).saslListMechs, open: true},
	memd.CmdSASLAuth:      {serve: (*conn).saslAuth, open: true},
	memd.CmdSASLStep:      {serve: (*conn).saslStep, open: true},
	memd.CmdNoop:          {serve: (*conn).noop, open: true},

	memd.CmdSelectBucket:           {serve: (*conn).selectBucket},
	memd.CmdGetClusterConfig:       {serve: (*conn).getClusterConfig},
	memd.CmdCollectionsGetManifest: {serve: (*conn).getManifest},
	memd.CmdCollectionsGetID:       {serve: (*conn).getCollectionID},

	memd.CmdGet:       {serve: (*conn).get, data: true},
	memd.CmdGAT:       {serve: (*conn).getAndTouch, data: true},
	memd.CmdTouch:     {serve: (*conn).getAndTouch, data: true},
	memd.CmdGetLocked: {serve: (*conn).getAndLock, data: true},
	memd.CmdUnlockKey: {serve: (*conn).unlock, data: true},
	memd.CmdGetMeta:   {serve: (*conn).getMeta, data: true},

	memd.CmdSet:     {serve: (*conn).store, data: true, value: true, durable: true, preserve: true},
	memd.CmdAdd:     {serve: (*conn).store, data: true, value: true, durable: true},
	memd.CmdReplace: {serve: (*conn).store, data: true, value: true, durable: true, preserve: true},
	memd.CmdDelete:  {serve: (*conn).remove, data: true, durable: true},

	memd.CmdRangeScanCreate:   {serve: (*conn).createRangeScan, data: true, value: true, keyless: true},
	memd.CmdRangeScanContinue: {serve: (*conn).continueRangeScan, data: true, keyless: true},
	memd.CmdRangeScanCancel:   {serve: (*conn).cancelRangeScan, data: true, keyless: true},

	memd.CmdSubDocMultiLookup:   {serve: (*conn).lookupIn, data: true},
	memd.CmdSubDocMultiMutation: {serve: (*conn).mutateIn, data: true, durable: true, preserve: true},
}
