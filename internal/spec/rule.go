package spec

// Policy is a policy, in milliseconds.
type Policy struct {
	Idle     int64 `json:"idle"`
	Max      int64 `json:"max"`
	Slack    int64 `json:"slack,omitempty"`
	MaxSlack int64 `json:"max_slack,omitempty"`
	Promote  bool  `json:"promote,omitempty"`
}

// Life is when a record was created and when it expires.
type Life struct {
	Created int64 `json:"created"`
	Expires int64 `json:"expires"`
}

// Rule is a policy on a store of a resolution, for processes whose clocks are at most Skew apart.
// The numbers in comments are those of docs/specification.md.
type Rule struct {
	Policy
	Step int64
	Skew int64
}

// Cap is C + M (A1).
func (r Rule) Cap(c int64) int64 { return c + r.Max }

// Deadline is what an access at t promises (A2).
func (r Rule) Deadline(c, t int64) int64 {
	if r.Promote {
		return r.Cap(c)
	}
	return min(t+r.Idle, r.Cap(c))
}

// Expiry is what a touch at t writes (A3).
func (r Rule) Expiry(c, t int64) int64 {
	if r.Promote {
		return r.up(r.Cap(c))
	}
	return r.Written(c, t)
}

// Written is what a write of the value at t gives (A4).
func (r Rule) Written(c, t int64) int64 { return r.up(min(t+r.Idle+r.Slack, r.Cap(c))) }

// Share is the largest J (D2).
func (r Rule) Share() int64 { return r.Slack / 16 }

// up rounds up to the store's resolution (A5).
func (r Rule) up(i int64) int64 { return (i + r.Step - 1) / r.Step * r.Step }

// Dead reports whether a record is not readable at now (L1).
func (r Rule) Dead(l Life, now int64) bool {
	return l.Expires != 0 && l.Expires <= now || l.Created != 0 && r.Cap(l.Created) <= now
}

// beyond reports whether an expiry lies beyond the policy (T1).
func (r Rule) beyond(l Life, now int64) bool {
	most := r.Cap(l.Created)
	if !r.Promote {
		most = min(most, now+r.Idle+max(r.Slack, r.MaxSlack))
	}
	return l.Expires > most+r.Skew+r.Step
}

// lowered is the expiry of a record that lies beyond the policy (T2).
func (r Rule) lowered(l Life, now int64) int64 {
	if r.Promote {
		return r.up(r.Cap(l.Created) + r.Skew)
	}
	return r.up(min(now+r.Idle+r.Slack, r.Cap(l.Created)) + r.Skew)
}

// The calls of a program.
const (
	Get    = "get"
	Peek   = "peek"
	Insert = "insert"
	Upsert = "upsert"
	Retire = "retire"
	Delete = "delete"
	Plant  = "plant" // another program writes a record without created_at
)

// The answers to them.
const (
	OK       = "ok"
	NotFound = "not found"
	Exists   = "exists"
	Foreign  = "foreign" // refused, because the record has no created_at
)

// What to do with records without created_at (F2).
const (
	Adopt    = ""
	ReadOnly = "read only"
	Reject   = "reject"
)

// Decide is what a call at now does to the record l, nil for none: its answer, and the life that it
// writes, nil if it writes nothing. early is J.
func (r Rule) Decide(do, foreign string, l *Life, now, early int64) (answer string, writes *Life) {
	dead := l == nil || r.Dead(*l, now)
	if do == Retire { // by the expiry alone: another process may have a later cap (R2)
		dead = l == nil || l.Expires != 0 && l.Expires <= now
	}
	switch {
	case (do == Insert || do == Upsert) && dead:
		return OK, &Life{now, r.Written(now, now)} // N1
	case dead && do != Delete:
		return NotFound, nil
	case do == Insert:
		return Exists, nil
	case l != nil && l.Created == 0 && do != Delete && (foreign == Reject || foreign == ReadOnly && do != Get && do != Peek):
		return Foreign, nil
	}
	switch do {
	case Retire:
		return OK, &Life{l.Created, (now - r.Skew) / r.Step * r.Step} // R1
	case Get:
		return OK, r.touch(l, now, early, foreign)
	case Upsert:
		return OK, r.overwrite(l, now)
	}
	return OK, nil
}

func (r Rule) touch(l *Life, now, early int64, foreign string) *Life {
	switch {
	case l.Created == 0 && foreign == ReadOnly:
		return nil
	case l.Created == 0: // F1
		return &Life{now, r.Expiry(now, now)}
	case l.Expires < r.Deadline(l.Created, now+early): // D1
		return &Life{l.Created, max(l.Expires, r.Expiry(l.Created, now))}
	case r.beyond(*l, now):
		return &Life{l.Created, r.lowered(*l, now)}
	}
	return nil
}

func (r Rule) overwrite(l *Life, now int64) *Life {
	switch {
	case l.Created == 0:
		return &Life{now, r.Written(now, now)}
	case r.beyond(*l, now):
		return &Life{l.Created, r.lowered(*l, now)}
	}
	return &Life{l.Created, max(l.Expires, r.Written(l.Created, now))} // N2
}
