package sql

import (
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Live is a condition for a WHERE of the application's own: it leaves out what has expired
// at now and was not swept yet. It has no placeholder, and names the column without its
// table. What it leaves in may be past its cap all the same if another program wrote it:
// slidingttl's Store.Alive tells.
func (t *table) Live(now driver.Instant) string {
	at := t.expiresOrNone()
	return fmt.Sprintf("(%s IS NULL OR %s > %d)", at, at, now)
}
