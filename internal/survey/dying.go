package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// DyingOptions adjusts Dying, which refuses Shards, Save, Resume and Prefix.
type DyingOptions struct {
	upkeep.Options

	// Limit bounds the report to the records that die first. Those that expire at one instant are
	// listed together, or all later. Dying holds twice as many in memory. Zero: 10,000.
	Limit int

	// Since leaves out records that expire by then: the Through of the report before. So a timer
	// learns of each expiry once, and of all if within is no longer than the policy's idle
	// grace, but for a record that it was told of and whose cap, after a touch, comes by Since
	// too. More than Limit records that expire at one instant are then an error. Zero: none.
	Since driver.Instant
}

// DyingReport lists records that die soon. Its text is a line of JSON for each key, for a queue.
type DyingReport struct {
	upkeep.Totals
	Until     time.Time  `json:"until"`     // they die by then
	Through   time.Time  `json:"through"`   // all that die by then are listed, or were before Since
	Dying     []DyingKey `json:"dying"`     // ordered by death; empty with an error
	More      bool       `json:"more"`      // more records than Limit die by Until
	Malformed int64      `json:"malformed"` // their expiry cannot be read
}

// DyingKey is a key that dies unless it is accessed.
type DyingKey struct {
	Key       string    `json:"key"`
	Bytes     []byte    `json:"key_bytes,omitempty"` // the key's bytes, if it is not UTF-8
	CreatedAt time.Time `json:"created_at,omitzero"` // zero: it was not adopted
	ExpiresAt time.Time `json:"expires_at"`
}

// Dying lists the records of s that expire within a time, for a program that refreshes them.
// If the driver is a [driver.Dying], it uses an index, else it scans all records. It goes by
// the stored expiry and knows no policy: under a policy that became tighter, records die
// sooner. A key that is accessed meanwhile may be listed, even twice.
func Dying(ctx context.Context, s driver.Scanner, within time.Duration, opts *DyingOptions) (*DyingReport, error) {
	o := driver.Given(opts)
	if err := o.validate(); err != nil {
		return nil, err
	}
	if within < 0 {
		return nil, invalid("within", within.String(), "must not be negative")
	}
	now := verdict.Clock(s, o.Now)()
	until, from := now.Add(within), max(now, o.Since)
	r := DyingReport{Until: until.Time()}
	var err error
	var mu sync.Mutex // guards those below
	var dying []driver.Scanned
	latest := until // the latest expiry still of interest
	first := func() {
		slices.SortFunc(dying, func(a, b driver.Scanned) int {
			return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), strings.Compare(a.Key, b.Key))
		})
		dying = slices.CompactFunc(dying, func(a, b driver.Scanned) bool { return a.Key == b.Key })
		if r.More = len(dying) > o.Limit; r.More {
			dying, latest = dying[:o.Limit+1], dying[o.Limit].ExpiresAt
		}
	}
	visit := func(_ int, page []driver.Scanned, into *DyingReport) error {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range page {
			if s.Problem != nil {
				into.Malformed++
			} else if s.ExpiresAt > from && s.ExpiresAt <= latest {
				if dying = append(dying, s); len(dying) > 2*o.Limit {
					first()
				}
			}
		}
		return nil
	}
	if d, indexed := driver.As[driver.Dying](s); indexed {
		var page []driver.Scanned
		page, err = retry.Value(ctx, func() ([]driver.Scanned, error) { return d.Dying(ctx, from, until, o.Limit+1) })
		_ = visit(0, page, &r)
		r.Totals = upkeep.Totals{Records: int64(len(page)), Done: err == nil, Runs: 1}
	} else {
		var all *DyingReport
		if all, err = upkeep.Walk(ctx, s, "dying", "", &o.Options, (*DyingReport).add, visit); all == nil {
			return nil, err
		}
		r.Totals, r.Malformed = all.Totals, all.Malformed
	}
	if first(); err != nil {
		return &r, err
	}
	r.Through = max(from, until).Time()
	if r.More { // those that expire together are listed together
		last := dying[o.Limit].ExpiresAt
		r.Through = (last - 1).Time()
		if whole := slices.IndexFunc(dying, func(s driver.Scanned) bool { return s.ExpiresAt == last }); whole > 0 {
			dying = dying[:whole]
		} else if o.Since != 0 {
			return &r, invalid("DyingOptions.Limit", fmt.Sprint(o.Limit), "must be more with Since: so many records expire at one instant")
		}
	}
	for _, s := range dying[:min(len(dying), o.Limit)] {
		k := DyingKey{Key: s.Key, CreatedAt: s.CreatedAt.Time(), ExpiresAt: s.ExpiresAt.Time()}
		if !utf8.ValidString(s.Key) {
			k.Bytes = []byte(s.Key)
		}
		r.Dying = append(r.Dying, k)
	}
	return &r, nil
}

func (o *DyingOptions) validate() error {
	if o.Shards > 0 || o.Save != nil || o.Resume != nil || o.Prefix != "" {
		return invalid("Options", "with Shards, Save, Resume or Prefix", "must not be set: Dying cannot be resumed or split")
	}
	if o.Limit < 0 {
		return invalid("DyingOptions.Limit", fmt.Sprint(o.Limit), "must not be negative")
	}
	o.Limit = cmp.Or(o.Limit, 10000)
	return nil
}

func (r *DyingReport) add(page *DyingReport) { r.Malformed += page.Malformed }

// String returns a line of JSON for each key.
func (r *DyingReport) String() string {
	var b strings.Builder
	for e, i := json.NewEncoder(&b), 0; i < len(r.Dying); i++ {
		_ = e.Encode(r.Dying[i]) // cannot fail
	}
	return strings.TrimSuffix(b.String(), "\n")
}
