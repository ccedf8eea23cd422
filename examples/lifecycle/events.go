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

// Event is what is stored of an event, and in the index of recent ones.
type Event struct {
	Title string `json:"title" dynamodbav:"title"`
}

// rules is how long the stages last.
type rules struct {
	day     time.Duration
	active  slidingttl.Policy // of events
	history time.Duration     // for how long the store retains them when that is over
	recent  slidingttl.Policy // of markers
}

// rulesOf are those of events of so long days: gone from the store by day 90.
func rulesOf(day time.Duration) rules {
	return rules{
		day:     day,
		active:  slidingttl.Policy{IdleGrace: 7 * day, MaxLifetime: 30 * day, Slack: day},
		history: 60 * day,
		recent:  slidingttl.Policy{IdleGrace: 3 * day, MaxLifetime: 3 * day},
	}
}

// Stage is how far an event has come.
type Stage string

// The stages.
const (
	Active   Stage = "active"   // in the store
	History  Stage = "history"  // retained by the store, to be read
	Archived Stage = "archived" // in the archive alone
)

// Seen is an event as it was found.
type Seen struct {
	ID    string
	Title string
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
}

// newEvents stores events on s and finds archived ones in b. now is the time; nil: the
// shelf's.
func newEvents(s *shelf, b archive.Bucket, r rules, now func() time.Time) (*Events, error) {
	e := &Events{rules: r, shelf: s, dead: archive.NewReader(b)}
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
	if err := e.events.Insert(ctx, id, Event{title}); err != nil {
		return "", err
	}
	return id, e.marks.Insert(ctx, id, Event{title})
}

// Visit returns an event in whatever stage it is, and keeps an active event active. For a
// moment between store and archive an event is slidingttl.ErrNotFound.
func (e *Events) Visit(ctx context.Context, id string) (Seen, error) {
	return e.see(ctx, id, e.events.Entry)
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
			ID: id, Title: live.Value.Title, Stage: Active, Began: live.CreatedAt,
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
		return Seen{
			ID: id, Title: past.Value.Title, Stage: History, Began: past.CreatedAt,
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
		var e Event
		err = json.Unmarshal(a.Value, &e)
		s.Title = e.Title
	case "dynamodb-json":
		var item struct {
			Title struct{ S string } `json:"title"`
		}
		err = json.Unmarshal(a.Value, &item)
		s.Title = item.Title.S
	default:
		err = fmt.Errorf("an archived event has the format %q, which this program does not write", a.Format)
	}
	return s, err
}
