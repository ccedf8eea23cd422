//go:build !race

// The race detector would find nothing here, where one goroutine makes the calls, and make it last five times as long.

package admission

import (
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const (
	skew  = 5 * time.Second                      // how far the clock of a release is off, at most
	late  = 2*skew + time.Minute + 2*time.Second // MaxSkew, by which a life that is shortened is spared, and roundings
	early = 2*skew + 2*time.Second

	grace   = time.Minute      // Options.RenewGrace
	maxWait = 10 * time.Minute // Options.MaxRequest
)

// life is a session as the judge knows it.
type life struct {
	user     string
	remember bool
	own      *slidingttl.Policy // Login.Policy; nil: that of the release
	id       string
	tokens   []issued // the last is the session's
	born     time.Time
	bornAt   int  // the call that began it
	endedAt  int  // the call that ended it; zero: none has
	unsure   bool // a call that failed may have ended it, or renewed its token
	changed  int  // how often it was renewed or ended, or may have been

	next   *life     // the session of the login that ended it
	sure   time.Time // its last access that no failure of the store was in the way of
	latest time.Time // until when an access may keep it, at most

	least, most int // Data.Count: changes that were acknowledged, and those beside them whose answers were lost
}

// issued is a token that a client was given.
type issued struct {
	token string
	at    time.Time
}

// policies are those of a release, and when it ran.
type policies struct {
	normal, remember slidingttl.Policy
	from, until      time.Time // until zero: it runs
}

func (p *policies) of(l *life) slidingttl.Policy {
	q := p.normal
	switch {
	case l.own != nil:
		q = *l.own
	case l.remember:
		q = p.remember
	}
	q.MaxLifetime = min(q.MaxLifetime, 100*365*24*time.Hour) // of a policy without a cap
	return q
}

func handleOf(token string) string {
	b, _ := base64.RawURLEncoding.DecodeString(token)
	if len(b) != 48 {
		return ""
	}
	return string(b[:16])
}

// lifeOf returns the session of token; nil: no client was given it.
func (w *world) lifeOf(token string) *life { return w.lives[handleOf(token)] }

// supersededAt returns when the session of l got another token than token; zero: it has not.
func (l *life) supersededAt(token string) time.Time {
	for i, t := range l.tokens {
		if t.token == token && i+1 < len(l.tokens) {
			return l.tokens[i+1].at
		}
	}
	return time.Time{}
}

func (l *life) end(at int) {
	l.changed++
	if l.endedAt == 0 {
		l.endedAt = at
	}
}

func (l *life) doubt() {
	l.changed++
	l.unsure = true
}

// access notes that a request of the release p may have kept l alive. sure: and did.
func (w *world) access(l *life, p *policies, sure bool) {
	q := p.of(l)
	until := w.now.Add(q.IdleGrace + q.Slack)
	if limit := l.born.Add(q.MaxLifetime); limit.Before(until) {
		until = limit
	}
	if until.After(l.latest) {
		l.latest = until
	}
	if sure {
		l.sure = w.now
	}
}

// mayLive reports whether some release may still know l.
func (w *world) mayLive(l *life) bool { return l.endedAt == 0 && !w.now.After(l.latest.Add(late)) }

// must reports whether token has to open its session: it is the current one, or was until a moment ago, nothing
// has ended the session, and by every policy that was in force since its last access, it lives.
func (w *world) must(token string) bool {
	l := w.lifeOf(token)
	if l == nil || !w.mustLive(l) {
		return false
	}
	at := l.supersededAt(token)
	i := slices.IndexFunc(l.tokens, func(t issued) bool { return t.token == token })
	return at.IsZero() || len(l.tokens)-i < 8 && w.now.Before(at.Add(grace-early))
}

func (w *world) mustLive(l *life) bool {
	if l.endedAt != 0 || l.unsure || l.sure.IsZero() {
		return false
	}
	for i := range w.history {
		p := &w.history[i]
		if !p.until.IsZero() && p.until.Before(l.sure) {
			continue
		}
		q := p.of(l)
		if t := w.now.Add(early); !t.Before(l.sure.Add(q.IdleGrace)) || !t.Before(l.born.Add(q.MaxLifetime)) {
			return false
		}
	}
	return true
}

// admitted judges that token, in a request of the release p that arrived as the call at, opened the
// session s. least: the changes that were acknowledged before.
func (w *world) admitted(token string, s *session.Session[Data], p *policies, at, least int) error {
	l := w.lifeOf(token)
	known := false
	if l != nil {
		for _, t := range l.tokens {
			known = known || t.token == token
		}
	}
	switch {
	case !known:
		return fmt.Errorf("a token that nobody was given opens the session of %q", s.User)
	case l.user != s.User:
		return fmt.Errorf("the token of %q opens the session of %q", l.user, s.User)
	case l.endedAt != 0 && l.endedAt < at:
		return fmt.Errorf("a session of %q that ended in call %d lives", l.user, l.endedAt)
	case w.now.After(l.latest.Add(late)):
		return fmt.Errorf("a session of %q that was to live until %v at most lives at %v", l.user, l.latest, w.now)
	case w.now.After(l.born.Add(p.of(l).MaxLifetime + late)):
		return fmt.Errorf("a session of %q lives past the cap", l.user)
	case s.Data.Count < least || s.Data.Count > l.most:
		return fmt.Errorf("a session of %q has %d changes, want %d to %d", l.user, s.Data.Count, least, l.most)
	}
	if at := l.supersededAt(token); !at.IsZero() && w.now.After(at.Add(grace+2*skew+2*time.Second)) {
		return fmt.Errorf("token %s of %q that was renewed at %v opens its session at %v", short(token), l.user, at, w.now)
	}
	return nil
}

// evicted judges that a login ended the session id because its user has too many.
func (w *world) evicted(id string) error {
	l := w.ids[id]
	if l == nil { // its token was not given to a client
		if w.depth == 2 {
			w.lost[id] = true // by a login within the one that began it, which has not returned
		}
		return nil
	}
	younger := w.logins // those that are under way
	for _, o := range w.lives {
		if o != l && o.user == l.user && w.mayLive(o) && !o.born.Before(l.born.Add(-2*skew)) {
			younger++
		}
	}
	if younger < w.atMost && w.mustLive(l) && w.depth == 1 && w.count.nested == w.nestedBefore && w.store.failures() == 0 { // else others may have ended since, or sessions may be listed of logins that failed
		return fmt.Errorf("a session of %q was evicted for %d others", l.user, younger)
	}
	w.count.evicted++
	l.end(w.calls)
	return nil
}

// given notes that a client was given token. l: the session is one that a login or a change began.
func (w *world) given(token string, l life) *life {
	w.tokens = append(w.tokens, token)
	h := handleOf(token)
	was := w.lives[h]
	if was == nil {
		was = &l
		was.born, was.bornAt, was.sure = w.now, w.calls, w.now
		w.lives[h] = was
		if l.id != "" {
			w.ids[l.id] = was
		}
	}
	was.changed++
	for _, t := range was.tokens {
		if t.token == token {
			return was
		}
	}
	was.tokens = append(was.tokens, issued{token, w.now})
	return was
}
