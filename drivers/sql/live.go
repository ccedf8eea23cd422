package sql

import (
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Live is a condition for the application's own WHERE that leaves out dead rows. These have expired
// at now and are not swept yet. The condition has no placeholder, and names the column without its
// table. A row that another program wrote may pass the condition although it is past its cap: check
// it with slidingttl's Store.Alive.
func (t *table) Live(now driver.Instant) string {
	at := t.expiresOrNone()
	return fmt.Sprintf("(%s IS NULL OR %s > %d)", at, at, now)
}
