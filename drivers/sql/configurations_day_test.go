//go:build !night

package sql

// configurationsOf returns which configurations of a database to try: forty of all three.
func configurationsOf(db string) (seed uint64, most, suspects int) { return 1, 13 + len(db)/8, 0 }
