//go:build night

package dynamodb

import "time"

func init() {
	allCases, anyValues = true, 50_000
	hotKeys = load{keys: 5_000, stores: 8, rate: 500, length: 40 * time.Minute}
}
