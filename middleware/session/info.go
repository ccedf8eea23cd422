package session

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Info is what is known of a session beside its data. The zero Info stands for
// none.
type Info struct {
	ID       string // stable through renewals; gives no access; "" if there is no session
	User     string // as given to Login; "" for an anonymous session
	Label    string // as given to Login
	Remember bool   // as given to Login

	// CreatedAt is the login or, for an anonymous session, its beginning.
	CreatedAt time.Time

	// LastSeen is the last access that was written, and never in the future. The actual
	// last access was up to the policy's slack later. It may be even later near the
	// absolute timeout, where accesses need no touch, or with Policy.Promote.
	LastSeen time.Time

	// IdleExpiry is the time until which the session lives without another access.
	IdleExpiry time.Time

	// AbsoluteExpiry is the instant that no access moves. Zero: there is none, by a
	// policy without a cap.
	AbsoluteExpiry time.Time
}

// info describes the session e, stored under id, at now.
func (p *policies) info(id string, e *driver.Entry[Record], now driver.Instant) Info {
	r := p.session(e.Value)
	limit := r.Cap(e.CreatedAt)
	expiry := min(e.ExpiresAt, limit)
	seen := e.CreatedAt
	if !r.Promote {
		// It may have been written under a policy with more slack.
		seen = max(seen, min(now, expiry.Add(-(r.IdleGrace+r.Slack))))
	}
	absolute := limit.Time()
	if r.MaxLifetime == slidingttl.NoCap {
		absolute = time.Time{}
	}
	return Info{
		ID:             id,
		User:           e.Value.User,
		Label:          e.Value.Label,
		Remember:       e.Value.Remember,
		CreatedAt:      e.CreatedAt.Time(),
		LastSeen:       seen.Time(),
		IdleExpiry:     expiry.Time(),
		AbsoluteExpiry: absolute,
	}
}
