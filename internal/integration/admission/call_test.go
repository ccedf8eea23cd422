//go:build !race

package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// call is a request, and what it has shown.
type call struct {
	*world
	r     *release
	p     *policies
	at    int
	user  string // of the client
	token string
	by    way
	act   int

	l            *life // of the token; nil: none
	must         bool  // the token has to open it
	lived        bool  // l was sure to live, when the call began
	changed      int   // l's, when the call began
	least        int   // l's
	faults       int
	nestedBefore int

	s        session.Session[Data]
	err      error  // of Get
	did      error  // of what was done then
	id       string // of the session that a login began
	list     []session.Info
	target   *life   // of a Revoke
	owed     []*life // the sessions of the user that must live
	except   bool
	remember bool
	own      *slidingttl.Policy
}

func (q *call) quiet() bool { return q.store.failures() == q.faults }

// alone reports whether nothing happened during the call that it has not done itself.
func (q *call) alone() bool { return q.depth == 1 && q.quiet() && q.count.nested == q.nestedBefore }

// touched reports whether the access counts. After a touch has failed, the next ones of that store or key
// may be put off; and a store whose clock is ahead refuses one for a session that is just dying. The session's
// expiry shows both.
func (q *call) touched() bool {
	p := q.p.of(q.l)
	least := q.now.Add(-skew + p.IdleGrace)
	if limit := q.l.born.Add(-2*skew + p.MaxLifetime); limit.Before(least) {
		least = limit
	}
	return q.faults == 0 && q.lived || !q.s.IdleExpiry.Before(least)
}

// make makes the request, and judges what it shows. It returns what the client was given.
func (q *call) make() (given string) {
	q.faults, q.nestedBefore = q.store.failures(), q.count.nested
	if q.l = q.lifeOf(q.token); q.l != nil {
		q.changed, q.least, q.lived = q.l.changed, q.l.least, q.mustLive(q.l)
	}
	q.must = q.depth == 1 && q.world.must(q.token) // else the call around it may have ended the session
	if q.must {
		q.count.owed++
	}
	switch {
	case q.act >= 55 && q.act < 58:
		q.begin()
		q.note("")
		return ""
	case q.act >= 58 && q.act < 61 && len(q.waiting) > 0:
		q.finish()
		q.note("")
		return ""
	}
	passive := q.act < 10 && q.by != rpc
	other := ""
	if len(q.tokens) > 0 {
		other = q.tokens[q.dice.IntN(len(q.tokens))]
	}
	q.remember = q.dice.IntN(3) == 0
	if given = q.r.call(context.Background(), q.by, q.token, other, passive, q.run); q.failed {
		return given
	}
	if q.l != nil && !passive && (q.s.ID != "" || !q.quiet()) {
		q.access(q.l, q.p, q.s.ID != "" && q.quiet() && q.touched())
	}
	if q.l != nil && q.r.every && !q.quiet() {
		q.l.doubt()
	}
	q.done(given)
	q.note(given)
	return given
}

// short names a token: its session, and its secret.
func short(token string) string {
	if len(token) < 32 {
		return token
	}
	return token[:6] + "-" + token[26:32]
}

// note writes down what the call has shown.
func (q *call) note(given string) {
	if *history {
		q.log = append(q.log, fmt.Sprintf("%d (%v): act %d of %s by %d release %d token %s/%s: %q %v did %v given %v quiet %v nested %d", q.at, q.now, q.act, q.user, q.by, q.r.index, short(q.token), short(given), q.s.ID, q.err, q.did, given != "", q.quiet(), q.count.nested-q.nestedBefore))
	}
}

// view judges what Get shows.
func (q *call) view(ctx context.Context) {
	q.s, q.err = q.r.sessions.Get(ctx)
	switch {
	case q.err != nil:
		if q.quiet() {
			q.fail(fmt.Errorf("Get: %w", q.err))
		}
	case q.s.ID != "":
		q.count.admitted++
		q.fail(q.world.admitted(q.token, &q.s, q.p, q.at, q.least))
		if q.l != nil && q.l.id == "" {
			q.l.id, q.ids[q.s.ID] = q.s.ID, q.l
		}
	case q.l != nil:
		q.count.refused++
		if q.must && q.quiet() && q.l.changed == q.changed && q.lived {
			q.fail(fmt.Errorf("release %d refuses %s", q.r.index, q.told(q.l)))
		}
	}
}

// run is the handler.
func (q *call) run(ctx context.Context) {
	m := q.r.sessions
	if q.view(ctx); q.failed {
		return
	}
	switch {
	case q.act >= 45 && q.act < 55:
		q.did = m.Update(ctx, func(d *Data) error { d.Count++; return nil })
	case q.act >= 58 && q.act < 62:
		q.noteOwed(q.user)
		q.list, q.did = m.List(context.Background(), q.user)
	case q.act >= 62 && q.act < 70:
		q.did = m.Renew(ctx)
	case q.act >= 70 && q.act < 72:
		var of []*life
		for _, l := range q.ids {
			if l.user == q.user {
				of = append(of, l)
			}
		}
		if len(of) == 0 {
			return
		}
		slices.SortFunc(of, func(a, b *life) int { return a.bornAt - b.bornAt })
		if q.target = of[max(0, len(of)-1-q.dice.IntN(6))]; q.mustLive(q.target) {
			q.owed = []*life{q.target}
		}
		q.did = m.Revoke(ctx, q.user, q.target.id)
	case q.act >= 72 && q.act < 74:
		if q.except = q.s.ID != "" && q.dice.IntN(2) == 0; q.except {
			q.did = m.RevokeAll(ctx, q.user, q.s.ID)
		} else {
			q.did = m.RevokeAll(ctx, q.user)
		}
	case q.act >= 74 && q.act < 78:
		q.did = m.Destroy(ctx)
	case q.act >= 90:
		q.logins++
		if q.depth == 1 {
			q.world.nestedBefore = q.count.nested
		}
		l := session.Login{User: q.user, Remember: q.remember}
		if q.dice.IntN(4) == 0 {
			l.Policy = q.policy(q.remember)
		}
		q.did = m.Login(ctx, l, nil)
		q.logins--
		if q.did == nil {
			s, _ := m.Get(ctx)
			q.id, q.remember = s.ID, s.Remember // another login's, if it joined that
			if e, err := q.kept.Get(context.Background(), "s:"+s.ID); err == nil {
				q.own = e.Value.Policy
			}
		}
	}
}

// noteOwed notes the sessions of user that must live.
func (q *call) noteOwed(user string) {
	for _, l := range q.lives {
		if l.user == user && l.id != "" && q.mustLive(l) {
			q.owed = append(q.owed, l)
		}
	}
}

// done notes what the call has done.
func (q *call) done(given string) {
	admitted := q.s.ID != ""
	if q.did != nil && q.quiet() && !errors.Is(q.did, session.ErrEnded) && !errors.Is(q.did, slidingttl.ErrNotFound) {
		q.fail(fmt.Errorf("act %d failed, and the store has not: %w", q.act, q.did))
		return
	}
	unknown := q.did != nil && !q.quiet() // it may have been done
	known := given != "" && given != "-" && q.lives[handleOf(given)] != nil
	if known { // renewed, or a login that was joined
		q.world.given(given, life{})
		q.count.renewed++
	}
	switch {
	case q.act >= 45 && q.act < 55 && q.err == nil:
		switch {
		case admitted && q.did == nil:
			q.l.least++
			q.l.most++
		case admitted && unknown:
			q.l.most++
		case q.did == nil && given != "" && !known:
			q.access(q.world.given(given, life{least: 1, most: 1}), q.p, true)
		}
	case q.act >= 58 && q.act < 62:
		if q.did == nil {
			q.listed()
		}
	case q.act >= 62 && q.act < 70:
		if unknown && q.l != nil {
			q.l.doubt()
		}
	case q.target != nil:
		switch {
		case q.did == nil:
			q.target.end(q.calls)
			q.count.ended++
		case unknown:
			q.target.doubt()
		case len(q.owed) > 0 && q.alone():
			q.fail(fmt.Errorf("Revoke does not find a session of %q: %w", q.user, q.did))
		}
	case q.act >= 72 && q.act < 74:
		q.revoked(unknown)
	case q.act >= 74 && q.act < 78 && q.l != nil:
		switch {
		case unknown:
			q.l.doubt()
		case q.did == nil && (admitted || q.current()):
			q.l.end(q.calls)
			q.count.ended++
		}
	case q.act >= 90:
		q.loggedIn(given, known, admitted, unknown)
	}
}

func (q *call) revoked(unknown bool) {
	q.revokedAt[q.user] = q.at
	for _, l := range q.lives {
		switch {
		case l.user != q.user || q.except && l.id == q.s.ID:
		case unknown || l.bornAt >= q.at: // begun meanwhile
			l.doubt()
		case q.did == nil:
			l.end(q.calls)
		}
	}
	if q.did == nil {
		q.count.revokedAll++
	}
}

func (q *call) loggedIn(given string, known, admitted, unknown bool) {
	q.doubted[q.user] = !q.quiet()
	if !q.quiet() { // whom it evicted, without an answer, nobody knows
		for _, l := range q.lives {
			if l.user == q.user && l != q.lifeOf(given) && q.mayLive(l) {
				l.doubt()
			}
		}
	}
	if q.l != nil && q.l.next != nil {
		q.access(q.l.next, q.p, false) // another submission of that login would join it
	}
	if q.did != nil {
		if unknown && q.l != nil {
			q.l.doubt()
		}
		return
	}
	q.count.loggedIn++
	if given == "" || given == "-" {
		q.fail(fmt.Errorf("a login gives the client %q", given))
		return
	}
	began := life{user: q.user, id: q.id, remember: q.remember, own: q.own}
	if q.l != nil && (q.l.user == "" || q.l.user == q.user) {
		// The data came along, unless another call ended the session first, or another login has begun, or joins, this one's.
		if began.most = q.l.most; admitted && !known && q.l.endedAt == 0 && q.l.changed == q.changed && q.lived {
			began.least = q.l.least
		}
		if known {
			q.lifeOf(given).most += q.l.most
		}
	}
	if known {
		q.access(q.lifeOf(given), q.p, false)
	} else {
		l := q.world.given(given, began)
		if q.depth == 1 && q.lost[q.id] {
			l.end(q.calls)
		}
		if q.access(l, q.p, true); q.revokedAt[q.user] > q.at || !q.quiet() && q.count.nested > q.nestedBefore {
			l.doubt() // a RevokeAll during the login may have ended it, or another login without an answer
		}
	}
	if admitted || q.l != nil && q.quiet() && q.current() {
		q.l.end(q.calls)
	}
	if admitted {
		q.l.next = q.lifeOf(given)
	}
}

// current reports whether the token is its session's, also if only the other release still has that.
func (q *call) current() bool {
	return !q.l.unsure && q.l.tokens[len(q.l.tokens)-1].token == q.token
}

// listed judges what List shows.
func (q *call) listed() {
	if !q.alone() {
		return
	}
	for _, i := range q.list {
		if l := q.ids[i.ID]; l != nil && l.endedAt != 0 && l.endedAt < q.at {
			q.fail(fmt.Errorf("a session of %q that ended in call %d is listed", l.user, l.endedAt))
		}
	}
	for _, l := range q.owed {
		if l.endedAt == 0 && !slices.ContainsFunc(q.list, func(i session.Info) bool { return i.ID == l.id }) {
			q.fail(fmt.Errorf("release %d does not list %s", q.r.index, q.told(l)))
		}
	}
	if len(q.list) > q.atMost && !q.doubted[q.user] {
		q.fail(fmt.Errorf("%d sessions of %q are listed", len(q.list), q.user))
	}
}

// begin begins a request that lasts.
func (q *call) begin() {
	ctx := q.r.sessions.Load(context.Background(), q.token)
	q.view(ctx)
	if q.l != nil && q.r.every && !q.quiet() {
		q.l.doubt()
	}
	if q.s.ID == "" || q.failed {
		return
	}
	q.access(q.l, q.p, q.quiet() && q.touched())
	if token, _, _ := q.r.sessions.Commit(ctx); token != "" {
		q.world.given(token, life{}) // which the client does not get
	}
	q.waiting = append(q.waiting, waiting{r: q.r, ctx: ctx, l: q.l})
}

// finish has one of them write.
func (q *call) finish() {
	i := q.dice.IntN(len(q.waiting))
	o := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	err := o.r.sessions.Update(o.ctx, func(d *Data) error { d.Count++; return nil })
	switch {
	case err == nil && o.l.endedAt != 0 && o.l.endedAt < q.at:
		q.fail(fmt.Errorf("a request wrote to a session of %q that ended in call %d", o.l.user, o.l.endedAt))
	case err == nil:
		o.l.least++
		o.l.most++
		q.count.lateWrites++
		q.access(o.l, &q.history[o.r.index], false)
	case !q.quiet():
		o.l.most++
		q.access(o.l, &q.history[o.r.index], false)
	}
}
