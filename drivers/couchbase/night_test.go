//go:build night

package couchbase_test

func init() { allCases, anyValues = true, 50_000 }
