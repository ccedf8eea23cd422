package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Event is what is stored of an event. The index of recent ones has its title.
type Event struct {
	Title    string   `json:"title" dynamodbav:"title"`
	Comments []string `json:"comments,omitempty" dynamodbav:"comments,omitempty"`
	Closed   bool     `json:"closed,omitempty" dynamodbav:"closed,omitempty"` // somebody ended it
}

// rules is how long the stages last.
type rules struct {
	day     time.Duration
	active  slidingttl.Policy // of events
	history time.Duration     // for how long the store retains them when that is over
	ended   time.Duration     // the first part of that, in which people still look for them
	recent  slidingttl.Policy // of markers
}

// rulesOf are those of events of so long days: gone from the store by day 90.
func rulesOf(day time.Duration) rules {
	return rules{
		day:     day,
		active:  slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day, Slack: day},
		history: 60 * day,
		ended:   7 * day,
		recent:  slidingttl.Policy{IdleGrace: 3 * day, MaxLifetime: 3 * day},
	}
}

// Stage is how far an event has come.
type Stage string

// The stages.
const (
	Active   Stage = "active"   // in the store, open to comments
	Ended    Stage = "ended"    // its life is over, it is retained by the store, to be read
	History  Stage = "history"  // the same, a while later
	Archived Stage = "archived" // in the archive alone
)

// Seen is an event as it was found.
type Seen struct {
	ID string
	Event
	Stage Stage

	Began   slidingttl.Instant
	Ends    slidingttl.Instant // its active life
	Leaves  slidingttl.Instant // the store; zero: it has
	Entered slidingttl.Instant // the archive; zero: it has not
	Why     archive.Reason     // what ended its active life
}

// Recent is a marker in the index of recent events.
type Recent struct{ ID, Title string }

// Events goes through the stages: Store.Get, Store.History, and the archive's Reader.
type Events struct {
	rules
	events *slidingttl.Store[Event]
	marks  *slidingttl.Store[Event]
	shelf  *shelf
	dead   *archive.Reader
	costs  costs
}

// newEvents stores events on s and finds archived ones in b. now is the time; nil: the
// shelf's.
func newEvents(s *shelf, b archive.Bucket, r rules, now func() time.Time) (*Events, error) {
	e := &Events{rules: r, shelf: s, dead: archive.NewReader(b), costs: listPrices}
	// On virtual time a read waits until its touch has ended.
	opts := &slidingttl.Options[Event]{Now: now, Strict: now != nil}
	var err error
	if e.events, err = slidingttl.New[Event](s.events, r.active, opts); err != nil {
		return nil, err
	}
	e.marks, err = slidingttl.New(s.marks, r.recent, opts)
	return e, err
}

// Close waits for touches under way.
func (e *Events) Close(ctx context.Context) error {
	return errors.Join(e.events.Close(ctx), e.marks.Close(ctx))
}

// Begin begins an event. It writes the marker second, so that every event in the index
// exists.
func (e *Events) Begin(ctx context.Context, title string) (id string, err error) {
	// The time comes first, so that the order of keys is the order of time.
	id = e.events.Now().UTC().Format("20060102-150405.000-") + strings.ToLower(rand.Text()[:8])
	if err := e.events.Insert(ctx, id, Event{Title: title}); err != nil {
		return "", err
	}
	return id, e.marks.Insert(ctx, id, Event{Title: title})
}

// Visit returns an event in whatever stage it is, and keeps an active event active. For a
// moment between store and archive an event is slidingttl.ErrNotFound.
func (e *Events) Visit(ctx context.Context, id string) (Seen, error) {
	return e.see(ctx, id, e.events.Entry)
}

// Why an event takes no comment.
var (
	errClosed = errors.New("the event has ended, and takes no comments")
	errFull   = errors.New("the event has as many comments as it may")
)

// Comment adds a comment to an active event. An event that died of idleness or age, or that End
// ended, takes none.
func (e *Events) Comment(ctx context.Context, id, text string) error {
	_, err := e.events.Update(ctx, id, func(v Event) (Event, error) {
		if v.Closed {
			return v, errClosed
		}
		if len(v.Comments) >= maxNotes {
			return v, errFull
		}
		v.Comments = append(slices.Clone(v.Comments), text)
		return v, nil
	})
	if errors.Is(err, slidingttl.ErrNotFound) {
		return errClosed
	}
	return err
}

// End ends an event now, and its marker, so that Recent leaves it out. It first marks the event
// as closed, which tells it from one that nobody visits. If the program dies in between, the
// event is closed and dies of idleness.
func (e *Events) End(ctx context.Context, id string) error {
	_, err := e.events.Update(ctx, id, func(v Event) (Event, error) {
		v.Closed = true
		return v, nil
	})
	if err == nil {
		err = e.events.Retire(ctx, id)
	}
	if mark := e.marks.Retire(ctx, id); err == nil && !errors.Is(mark, slidingttl.ErrNotFound) {
		err = mark
	}
	return err
}

// Recent lists the recent events from the index, the latest first. However many other
// events there are, it reads only markers.
func (e *Events) Recent(ctx context.Context) ([]Recent, error) {
	recent, err := e.shelf.recent(ctx, driver.Floor(e.marks.Now()))
	slices.SortFunc(recent, func(a, b Recent) int { return strings.Compare(b.ID, a.ID) })
	return recent, err
}

// All lists the events of all stages that were active after since, the latest first, and
// touches none. It reads all records, which only a small example can do.
func (e *Events) All(ctx context.Context, since slidingttl.Instant) ([]Seen, error) {
	segments, err := e.shelf.events.Segments(ctx, 1)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Seen)
	for _, at := range segments {
		for at != "" {
			page, err := e.shelf.events.Scan(ctx, at, 500)
			if err != nil {
				return nil, err
			}
			for _, r := range page.Records {
				seen, err := e.see(ctx, r.Key, e.events.Peek)
				switch {
				case errors.Is(err, slidingttl.ErrNotFound): // it left meanwhile
				case err != nil:
					return nil, err
				default:
					all[r.Key] = seen
				}
			}
			at = page.Next
		}
	}
	for a, err := range e.dead.All(ctx, archive.Span{From: archive.DayOf(since)}) {
		if err != nil {
			return nil, err
		}
		if _, ok := all[a.Key]; !ok && a.ExpiredAt > since {
			if all[a.Key], err = archived(&a); err != nil {
				return nil, err
			}
		}
	}
	list := make([]Seen, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Seen) int { return strings.Compare(b.ID, a.ID) })
	return list, nil
}

// see looks for an event in the store, by read, and then in the archive.
func (e *Events) see(ctx context.Context, id string, read func(context.Context, string) (slidingttl.Entry[Event], error)) (Seen, error) {
	live, err := read(ctx, id)
	if err == nil {
		return Seen{
			ID: id, Event: live.Value, Stage: Active, Began: live.CreatedAt,
			Ends: live.ExpiresAt, Leaves: live.ExpiresAt.Add(e.history),
		}, nil
	}
	if !errors.Is(err, slidingttl.ErrNotFound) {
		return Seen{}, err
	}
	past, err := e.events.History(ctx, id)
	if err == nil {
		why := archive.Idle
		if past.Cause == slidingttl.ReadDiedOfAge {
			why = archive.Age
		}
		stage := History
		if driver.Floor(e.events.Now()) < past.DiedAt.Add(e.ended) {
			stage = Ended
		}
		return Seen{
			ID: id, Event: past.Value, Stage: stage, Began: past.CreatedAt,
			Ends: past.DiedAt, Leaves: past.DiedAt.Add(e.history), Why: why,
		}, nil
	}
	if !errors.Is(err, slidingttl.ErrNotFound) {
		return Seen{}, err
	}
	lives, archiveErr := e.dead.Find(ctx, id, archive.Span{})
	if len(lives) == 0 {
		if archiveErr != nil {
			err = archiveErr
		}
		return Seen{}, err
	}
	return archived(&lives[len(lives)-1])
}

// archived is an event as the archive has it: in the form of the store that it came from.
func archived(a *archive.Archived) (Seen, error) {
	s := Seen{
		ID: a.Key, Stage: Archived, Began: a.CreatedAt,
		Ends: a.ExpiredAt, Entered: a.ArchivedAt, Why: a.Reason,
	}
	var err error
	switch a.Format {
	case "json":
		err = json.Unmarshal(a.Value, &s.Event)
	case "dynamodb-json":
		var item struct {
			Title    struct{ S string }               `json:"title"`
			Comments struct{ L []struct{ S string } } `json:"comments"`
			Closed   struct{ BOOL bool }              `json:"closed"`
		}
		err = json.Unmarshal(a.Value, &item)
		s.Title, s.Closed = item.Title.S, item.Closed.BOOL
		for _, c := range item.Comments.L {
			s.Comments = append(s.Comments, c.S)
		}
	default:
		err = fmt.Errorf("an archived event has the format %q, which this program does not write", a.Format)
	}
	return s, err
}
