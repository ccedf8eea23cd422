package drivertest

import "strings"

// OfLayout is a [Harness.Cases] for a further layout of a driver with several layouts. It
// chooses the cases that a layout can change; another layout must run the whole contract. A
// layout decides what stands in a record and by which operations that gets there, and so
// what each call makes of one record. It decides nothing of who wins among writers, of when
// a call ends, of what a failure is told as, of how the pages of a scan follow each other,
// or of what a Store does with a driver's answers. A choice that leaves out too much shows
// in the lines that a layout runs only when all cases are chosen:
//
//	go test -run 'TestContract/path$' -coverprofile some.out
//	go test -run 'TestContract/path$' -coverprofile all.out -tags night
//	diff some.out all.out
func OfLayout(name string) bool {
	group, rule, _ := strings.Cut(name, "/")
	switch group {
	case "race", "context", "fault", "store":
		return false
	case "batch":
		return rule != "many"
	case "scan":
		return rule == "foreign" || rule == "malformed"
	}
	return !strings.HasPrefix(rule, "race")
}
