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
	Kind       kind               `json:"kind,omitempty" dynamodbav:"kind,omitempty"`
	Token      []byte             `json:"token,omitempty" dynamodbav:"token,omitempty"`           // hash of the secret
	Former     []former           `json:"former,omitempty" dynamodbav:"former,omitempty"`         // tokens before this one, the last first
	ChangedAt  driver.Instant     `json:"changed_at,omitempty" dynamodbav:"changed_at,omitempty"` // when Token was made, if not with the record, or the session ended
	ReplacedBy []byte             `json:"heir,omitempty" dynamodbav:"heir,omitempty"`             // of an ended session: the token of the login that replaced it, masked by its own
	User       string             `json:"user,omitempty" dynamodbav:"user,omitempty"`
	Label      string             `json:"label,omitempty" dynamodbav:"label,omitempty"`
	Remember   bool               `json:"remember,omitempty" dynamodbav:"remember,omitempty"`
	Policy     *slidingttl.Policy `json:"policy,omitempty" dynamodbav:"policy,omitempty"` // as given to Login; nil: that of the Options
	Data       json.RawMessage    `json:"data,omitempty" dynamodbav:"data,omitempty"`
	Listed     time.Duration      `json:"listed,omitempty" dynamodbav:"listed,omitempty"`     // the MaxLifetime that its user's index outlasts; zero: unknown
	Sessions   []member           `json:"sessions,omitempty" dynamodbav:"sessions,omitempty"` // of an index
	Lasts      time.Duration      `json:"lasts,omitempty" dynamodbav:"lasts,omitempty"`       // of an index: the longest Listed that it ever had
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
	Until     driver.Instant `json:"until" dynamodbav:"until"` // its absolute timeout when it was listed; another policy may have moved it since
}

// clocksApart is how far the clocks of servers may be apart for a session to end on all of them at once.
const clocksApart = time.Minute

// indexMargin is how much longer an index lives than it has to: its writers' clocks differ.
const indexMargin = 5 * time.Minute

// policies are the lives of a manager's records.
type policies struct {
	normal, remember, ended slidingttl.Policy
	longest                 time.Duration // MaxLifetime of a session
}

func newPolicies(o *Options) policies {
	return policies{
		normal:   o.Policy,
		remember: o.Remember,
		ended:    slidingttl.Policy{IdleGrace: o.MaxRequest, MaxLifetime: slidingttl.NoCap},
		longest:  max(o.Policy.MaxLifetime, o.Remember.MaxLifetime),
	}
}

// index is the policy of an index that lists sessions of up to this MaxLifetime. It depends on
// the record, so that a release with shorter policies does not shorten its life.
func (p *policies) index(lasts time.Duration) slidingttl.Policy {
	lasts = min(max(lasts, p.longest), slidingttl.NoCap-indexMargin)
	return slidingttl.Policy{IdleGrace: lasts + indexMargin, MaxLifetime: slidingttl.NoCap}
}

// of returns the policy of r. No write gives a session a life that its user's index may not
// outlast.
func (p *policies) of(r Record) slidingttl.Policy {
	switch r.Kind {
	case index:
		return p.index(r.Lasts)
	case ended:
		return p.ended
	}
	l := p.session(r)
	if r.Listed > 0 && r.Listed < l.MaxLifetime {
		l.MaxLifetime = r.Listed
		l.IdleGrace = min(l.IdleGrace, r.Listed)
		l.Slack, l.MaxSlack = min(l.Slack, l.IdleGrace), min(l.MaxSlack, l.IdleGrace)
	}
	return l
}

// session returns the policy of the session r once its user's index outlasts it.
func (p *policies) session(r Record) slidingttl.Policy {
	switch {
	case r.Policy != nil:
		return *r.Policy
	case r.Remember:
		return p.remember
	}
	return p.normal
}

// listed is r as a session that its user's index is to outlast.
func (p *policies) listed(r Record) Record {
	if r.User != "" {
		r.Listed = p.session(r).MaxLifetime
	}
	return r
}

// outlasted reports whether its user's index is known to outlast the session r.
func (p *policies) outlasted(r *Record) bool {
	return r.User == "" || r.Listed >= p.session(*r).MaxLifetime
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
