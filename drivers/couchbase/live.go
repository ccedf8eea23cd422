package couchbase

import (
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Live is a condition for the application's own SQL++ query that leaves out dead documents.
// The query calls the document alias. The condition leaves out documents that have expired
// at now and are still in an index, which a covered query reads. If another program wrote a
// document, it may pass though it is past its cap: ask slidingttl's Store.Alive. Source:
// docs.couchbase.com, SQL++, META().
//
// With Options.Retain it reads the xattr of retained records, so that no query is covered. Without,
// it takes records that another driver retains for alive.
func (d *Driver[T]) Live(alias string, now driver.Instant) string {
	meta := "META(" + quoted(alias) + ")"
	expiration := meta + ".expiration"
	if d.opts.Retain == 0 {
		return fmt.Sprintf("(%s = 0 OR %s > %d)", expiration, expiration, now/1000)
	}
	stamp := meta + ".xattrs"
	for name := range strings.SplitSeq(d.created.stampedPath(), ".") {
		stamp += "." + quoted(name)
	}
	return fmt.Sprintf("(%s = 0 OR CASE WHEN %s[2] = %s THEN %s[1] ELSE %s END > %d)", expiration, stamp, expiration, stamp, expiration, now/1000)
}

// quoted is a name in SQL++.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
