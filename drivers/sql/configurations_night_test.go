//go:build night

package sql

import "time"

// configurationsOf returns which configurations of a database to try: all pairs, and each suspect
// value in two others. The seed is in the test's log.
func configurationsOf(string) (seed uint64, most, suspects int) {
	return uint64(time.Now().Unix() / 86400), 1000, 2
}
