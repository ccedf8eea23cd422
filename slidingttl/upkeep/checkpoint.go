package upkeep

import (
	"encoding/json"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Checkpoint is the position of an operation. It is plain data, which marshals to JSON. Its
// cursors may contain keys: protect it as you protect the keys.
type Checkpoint struct {
	Operation string          `json:"operation"` // "audit"
	About     string          `json:"about"`     // the policy and options, which must be the same to resume
	Segments  []driver.Cursor `json:"segments"`  // the position in each; empty: the segment is done
	State     json.RawMessage `json:"state"`     // the results so far

	// Parts has the results of each segment, and Rest all others. They are apart because a scan
	// may have to begin a segment anew.
	Parts []json.RawMessage `json:"parts,omitempty"`
	Rest  json.RawMessage   `json:"rest,omitempty"`

	// Pending are records that were read, and whose write was not tried to its end.
	Pending []record `json:"pending,omitempty"`
}

// Done reports whether all segments are done, and no record is pending.
func (c *Checkpoint) Done() bool {
	if len(c.Pending) > 0 {
		return false
	}
	for _, s := range c.Segments {
		if s != "" {
			return false
		}
	}
	return true
}

// fits returns an error if an operation cannot resume from c.
func (c *Checkpoint) fits(op, about string) error {
	switch {
	case c.Operation != op || c.About != about:
		return invalid("Options.Resume", fmt.Sprintf("of %s, %q", c.Operation, c.About), fmt.Sprintf("must be of this operation, %s, %q", op, about))
	case len(c.Segments) == 0:
		return invalid("Options.Resume", "without segments", "must be one that was saved")
	}
	return nil
}
