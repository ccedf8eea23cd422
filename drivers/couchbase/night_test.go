//go:build night

package couchbase_test

func init() { allCases = true }
