package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// quarantined returns r in the Quarantine's form. Its generation is a hash of all fields, because
// such a record may lack a key or a generation that would tell it from others.
func quarantined(r *Record, source string, now driver.Instant, problem error) Archived {
	a := Archived{Record: *r, Source: source, ArchivedAt: now, Columns: map[string]any{colProblem: strings.ToValidUTF8(problem.Error(), "?")}}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %d %d %q ", r.Generation, r.CreatedAt, r.ExpiredAt, r.Format)
	_, _ = h.Write(r.Value)
	a.Generation = hex.EncodeToString(h.Sum(nil)[:16])
	a.Format, a.Reason, a.Problem = strings.ToValidUTF8(r.Format, "?"), Unknown, nil
	for _, at := range []*driver.Instant{&a.CreatedAt, &a.ExpiredAt} {
		if !inYears(*at) {
			*at = 0 // the problem has it
		}
	}
	return a
}
