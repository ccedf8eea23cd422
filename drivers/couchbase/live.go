package couchbase

import (
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Live is a condition for a WHERE of the application's own SQL++, about the document that
// the query calls alias: it leaves out what has expired at now and is still in an index,
// from which a covered query answers. What it leaves in may be past its cap all the same
// if another program wrote it: slidingttl's Store.Alive tells. Source: docs.couchbase.com,
// SQL++, META().
func (d *Driver[T]) Live(alias string, now driver.Instant) string {
	meta := "META(`" + strings.ReplaceAll(alias, "`", "``") + "`).expiration"
	return fmt.Sprintf("(%s = 0 OR %s > %d)", meta, meta, now/1000)
}
