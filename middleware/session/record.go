package session

import (
	"encoding/json"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Record is what a Manager keeps in the store: the driver it is given holds
// Records. The fields are exported for the drivers' sake and are the Manager's
// own; created_at and the expiry are beside them, where the driver puts them.
type Record struct {
	Kind      Kind            `json:"kind,omitempty" dynamodbav:"kind,omitempty"`
	Token     []byte          `json:"token,omitempty" dynamodbav:"token,omitempty"`           // hash of the secret
	Previous  []byte          `json:"previous,omitempty" dynamodbav:"previous,omitempty"`     // of the one before
	RenewedAt driver.Instant  `json:"renewed_at,omitempty" dynamodbav:"renewed_at,omitempty"` // when Previous was replaced
	User      string          `json:"user,omitempty" dynamodbav:"user,omitempty"`
	Label     string          `json:"label,omitempty" dynamodbav:"label,omitempty"`
	Remember  bool            `json:"remember,omitempty" dynamodbav:"remember,omitempty"`
	Data      json.RawMessage `json:"data,omitempty" dynamodbav:"data,omitempty"`
	Sessions  []Member        `json:"sessions,omitempty" dynamodbav:"sessions,omitempty"` // of an index
}

// Kind is what a Record is.
type Kind int

const (
	// Live is a session.
	Live Kind = iota
	// Ended is what a session leaves behind, for RenewGrace, when a login takes
	// its place: requests in flight must not begin another.
	Ended
	// Index lists a user's sessions.
	Index
)

// Member is a session in a user's index.
type Member struct {
	ID        string         `json:"id" dynamodbav:"id"`
	CreatedAt driver.Instant `json:"created_at" dynamodbav:"created_at"`
	Until     driver.Instant `json:"until" dynamodbav:"until"` // its absolute timeout
}

// indexLifetime caps an index record, which is to live as long as its user: no
// expiry that is ever written lies near it.
const indexLifetime = 50 * 365 * 24 * time.Hour

// policies are the lives of a manager's records.
type policies struct {
	normal, remember, index slidingttl.Policy
	grace                   time.Duration
}

func newPolicies(o *Options) policies {
	return policies{
		normal:   o.Policy,
		remember: o.Remember,
		index: slidingttl.Policy{
			IdleGrace:   max(o.Policy.MaxLifetime, o.Remember.MaxLifetime),
			MaxLifetime: max(indexLifetime, o.Policy.MaxLifetime, o.Remember.MaxLifetime),
		},
		grace: o.RenewGrace,
	}
}

// of returns the policy of r.
func (p *policies) of(r Record) slidingttl.Policy {
	if r.Kind == Index {
		return p.index
	}
	s := p.normal
	if r.Remember {
		s = p.remember
	}
	if r.Kind == Ended {
		s = slidingttl.Policy{IdleGrace: p.grace, MaxLifetime: s.MaxLifetime}
	}
	return s
}

// Info is what is known of a session beside its data. The zero Info stands for
// none.
type Info struct {
	ID       string // stable through renewals; gives no access; "" if there is no session
	User     string // as given to Login; "" for an anonymous session
	Label    string // as given to Login
	Remember bool   // as given to Login

	// CreatedAt is the login or, for an anonymous session, its beginning.
	CreatedAt time.Time

	// LastSeen is the last access that was written down: the last of all was up to
	// the policy's slack later, or any time later once the absolute timeout is
	// so near that accesses need no touch, or with Policy.Promote.
	LastSeen time.Time

	// IdleExpiry is until when the session lives if nobody accesses it again.
	IdleExpiry time.Time

	// AbsoluteExpiry is the instant that no access moves.
	AbsoluteExpiry time.Time
}

// info describes the session e, stored under id.
func (p *policies) info(id string, e *driver.Entry[Record]) Info {
	r := p.of(e.Value)
	limit := r.Cap(e.CreatedAt)
	expiry := min(e.ExpiresAt, limit)
	seen := e.CreatedAt
	if !r.Promote {
		seen = max(seen, expiry.Add(-(r.IdleGrace + r.Slack)))
	}
	return Info{
		ID:             id,
		User:           e.Value.User,
		Label:          e.Value.Label,
		Remember:       e.Value.Remember,
		CreatedAt:      e.CreatedAt.Time(),
		LastSeen:       seen.Time(),
		IdleExpiry:     expiry.Time(),
		AbsoluteExpiry: limit.Time(),
	}
}
