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
//
// With Options.Retain it reads the xattr that tells which records are only retained, and no
// query is covered any more. Without, it takes those that another driver retains for live.
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
