package upkeep

import (
	"encoding/json"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Checkpoint is where an operation stands. It is plain data, which marshals to JSON. Its
// cursors may hold keys: keep it as you would keep those.
type Checkpoint struct {
	Operation string          `json:"operation"` // "audit"
	About     string          `json:"about"`     // the policy and options, which must be the same to go on
	Segments  []driver.Cursor `json:"segments"`  // where each goes on; empty: it is done
	State     json.RawMessage `json:"state"`     // what was found so far
}

// Done reports whether all segments were gone through.
func (c *Checkpoint) Done() bool {
	for _, s := range c.Segments {
		if s != "" {
			return false
		}
	}
	return true
}

// fits says what keeps an operation from going on from c.
func (c *Checkpoint) fits(op, about string) error {
	switch {
	case c.Operation != op || c.About != about:
		return invalid("Options.Resume", fmt.Sprintf("of %s, %q", c.Operation, c.About), fmt.Sprintf("must be of what is done now, %s, %q", op, about))
	case len(c.Segments) == 0:
		return invalid("Options.Resume", "without segments", "must be one that was saved")
	}
	return nil
}
