package main

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// timeline is the life of a session, from its login to its absolute timeout, in
// milliseconds of the server's clock. The zero timeline, but for Now: there is none.
type timeline struct {
	Now      int64 `json:"now"`
	Created  int64 `json:"created"`
	Accessed int64 `json:"accessed"` // 0: by this request, which does not count
	Touched  int64 `json:"touched"`  // the last access that was written to the store
	Stored   int64 `json:"stored"`   // the expiry that was written then
	Cap      int64 `json:"cap"`
	Idle     int64 `json:"idle"` // the idle timeout

	Reads   uint64 `json:"reads"`   // of this session, by this server
	Touches uint64 `json:"touches"` // writes of its expiry, with its data or alone
}

// timelineOf describes s, which was accessed at the time given unless that is zero.
func (a *app) timelineOf(s session.Session[Data], accessed time.Time) timeline {
	l := timeline{Now: a.now().UnixMilli()}
	if s.ID == "" {
		return l
	}
	policy := a.policies[0]
	if s.Remember {
		policy = a.policies[1]
	}
	if !accessed.IsZero() {
		l.Accessed = accessed.UnixMilli()
	}
	l.Created, l.Touched, l.Stored, l.Cap = s.CreatedAt.UnixMilli(), s.LastSeen.UnixMilli(), s.IdleExpiry.UnixMilli(), s.AbsoluteExpiry.UnixMilli()
	l.Idle = policy.IdleGrace.Milliseconds()
	l.Reads, l.Touches = a.tally.of(s.ID)
	return l
}

// Deadline is until when the last access keeps the session.
func (l timeline) Deadline() int64 { return min(max(l.Accessed, l.Touched)+l.Idle, l.Cap) }

// Saved is how many more writes there would have been if each read wrote.
func (l timeline) Saved() uint64 { return l.Reads - min(l.Reads, l.Touches) }

// X is where on the line an instant is, as a share of the picture's width. Markers
// at either end keep clear of its edges.
func (l timeline) X(at int64) string {
	part := float64(at-l.Created) / float64(max(1, l.Cap-l.Created))
	return fmt.Sprintf("%.2f%%", 4+92*min(1, max(0, part)))
}

// Width is the share of the picture from one instant to another.
func (l timeline) Width(from, to int64) string {
	part := float64(to-from) / float64(max(1, l.Cap-l.Created))
	return fmt.Sprintf("%.2f%%", 92*min(1, max(0, part)))
}

// Left says how long it is until an instant, or since.
func (l timeline) Left(at int64) string {
	d := time.Duration(at-l.Now) * time.Millisecond
	if d <= 0 {
		return clock(-d) + " ago"
	}
	return "in " + clock(d+time.Second-1)
}

// clock is d as days and a clock would show it, in whole seconds.
func clock(d time.Duration) string {
	s := int64(d / time.Second)
	days, h, m := s/86400, s/3600%24, s/60%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d:%02d:%02d", days, h, m, s%60)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s%60)
	}
	return fmt.Sprintf("%d:%02d", m, s%60)
}

// At is an instant as the page writes it, and Machine as machines read it.
func (timeline) At(ms int64) string      { return moment(time.UnixMilli(ms)) }
func (timeline) Machine(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// moment is a time with its date and its zone.
func moment(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 MST") }
