package drivertest

import "strings"

// OfLayout is a [Harness.Cases] for a further layout of a driver with several layouts. It
// chooses the cases that a layout can change; another layout must run the whole contract. A
// layout decides what a record contains and which operations write it, and so what each call
// does with one record. It has no influence on which writer wins, when a call ends, how a
// failure is reported, how the pages of a scan follow each other, or what a Store does with
// a driver's answers. To see whether the choice leaves out too much, look for lines that a
// layout runs only when all cases are chosen:
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
