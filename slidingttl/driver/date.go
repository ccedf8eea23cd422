package driver

import (
	"fmt"
	"time"
)

// CheckDate returns an *InvalidError if the system's clock is more than skew off that of a
// service, by the Date of its answer to a request: whole seconds, rounded down. The answer came
// between sent and got. A zero date is no date, and no error.
func CheckDate(service string, date, sent, got time.Time, skew time.Duration) error {
	off, direction := date.Sub(got), "behind"
	if ahead := sent.Sub(date.Add(time.Second)); ahead > off {
		off, direction = ahead, "ahead of"
	}
	if off <= skew || date.IsZero() {
		return nil
	}
	return &InvalidError{
		Field: "system clock",
		Value: fmt.Sprintf("at least %v %s %s's", off.Round(time.Millisecond), direction, service),
		Rule:  fmt.Sprintf("must be within %v of it (Options.MaxSkew)", skew),
	}
}
