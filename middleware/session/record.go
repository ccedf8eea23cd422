package session

import (
	"encoding/json"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Record is what a Manager stores: its driver holds Records. The content is private to the
// Manager. The driver stores created_at and the expiry beside it.
type Record = record

type record struct {
	Kind       kind            `json:"kind,omitempty" dynamodbav:"kind,omitempty"`
	Token      []byte          `json:"token,omitempty" dynamodbav:"token,omitempty"`           // hash of the secret
	Former     []former        `json:"former,omitempty" dynamodbav:"former,omitempty"`         // tokens before this one, the last first
	ChangedAt  driver.Instant  `json:"changed_at,omitempty" dynamodbav:"changed_at,omitempty"` // when Token was made, if not with the record, or the session ended
	ReplacedBy []byte          `json:"heir,omitempty" dynamodbav:"heir,omitempty"`             // of an ended session: the token of the login that replaced it, masked by its own
	User       string          `json:"user,omitempty" dynamodbav:"user,omitempty"`
	Label      string          `json:"label,omitempty" dynamodbav:"label,omitempty"`
	Remember   bool            `json:"remember,omitempty" dynamodbav:"remember,omitempty"`
	Data       json.RawMessage `json:"data,omitempty" dynamodbav:"data,omitempty"`
	Sessions   []member        `json:"sessions,omitempty" dynamodbav:"sessions,omitempty"` // of an index
}

// kind is what a record is.
type kind int

const (
	live kind = iota
	// ended is the mark that a session leaves for Options.MaxRequest, so that a request
	// that came for it does not begin another.
	ended
	// index lists a user's sessions.
	index
)

// former is a token that was renewed.
type former struct {
	Token []byte         `json:"token" dynamodbav:"token"` // hash of the secret
	Until driver.Instant `json:"until" dynamodbav:"until"` // requests that arrived before may still show it
}

// maxFormer bounds the former tokens that a record remembers.
const maxFormer = 8

// member is a session in a user's index.
type member struct {
	ID        string         `json:"id" dynamodbav:"id"`
	CreatedAt driver.Instant `json:"created_at" dynamodbav:"created_at"`
	Until     driver.Instant `json:"until" dynamodbav:"until"` // its absolute timeout
}

// indexLifetime caps an index record, which lives as long as its user. It is so long that
// no expiry comes near it.
const indexLifetime = 50 * 365 * 24 * time.Hour

// policies are the lives of a manager's records.
type policies struct {
	normal, remember, index, ended slidingttl.Policy
}

func newPolicies(o *Options) policies {
	longest := max(o.Policy.MaxLifetime, o.Remember.MaxLifetime)
	return policies{
		normal:   o.Policy,
		remember: o.Remember,
		index:    slidingttl.Policy{IdleGrace: longest, MaxLifetime: max(indexLifetime, longest)},
		ended:    slidingttl.Policy{IdleGrace: o.MaxRequest, MaxLifetime: min(longest, slidingttl.NoCap-o.MaxRequest) + o.MaxRequest},
	}
}

// of returns the policy of r.
func (p *policies) of(r Record) slidingttl.Policy {
	switch {
	case r.Kind == index:
		return p.index
	case r.Kind == ended:
		return p.ended
	case r.Remember:
		return p.remember
	}
	return p.normal
}

// accepts reports whether t is the session's token, or was until shortly before the request
// arrived.
func (r *record) accepts(t *token, arrived driver.Instant) bool {
	h := t.hash()
	if sameHash(h, r.Token) {
		return true
	}
	for _, f := range r.Former {
		if sameHash(h, f.Token) {
			return arrived < f.Until
		}
	}
	return false
}

// renew makes t the session's token at now. Requests that arrive within grace may show the
// former token, and last as long as most.
func (r *record) renew(t *token, now driver.Instant, grace, most time.Duration) {
	kept := []former{{r.Token, now.Add(grace)}}
	for _, f := range r.Former {
		if len(kept) < maxFormer && now < f.Until.Add(most) {
			kept = append(kept, f)
		}
	}
	r.Token, r.Former, r.ChangedAt = t.hash(), kept, now
}
