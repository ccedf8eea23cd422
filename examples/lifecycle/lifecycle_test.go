package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// site is the example over an archive of the test's own, with a time of its own.
type site struct {
	*Events
	t       *testing.T
	archive archive.Bucket
	start   time.Time
	ahead   atomic.Int64
}

func newSite(t *testing.T, open func(*archive.Archiver, rules, func() time.Time) (*shelf, error)) *site {
	t.Helper()
	bucket, err := archive.OpenDirectory(t.TempDir())
	ok(t, err)
	return newSiteOn(t, bucket, open)
}

// newSiteOn is newSite with the archive in bucket.
func newSiteOn(t *testing.T, bucket archive.Bucket, open func(*archive.Archiver, rules, func() time.Time) (*shelf, error)) *site {
	t.Helper()
	s := &site{t: t, archive: bucket, start: time.Now().Truncate(time.Second)}
	now := func() time.Time { return s.start.Add(time.Duration(s.ahead.Load())) }
	rules := rulesOf(day)
	g, err := newArchiver(bucket, rules, now)
	ok(t, err)
	shelf, err := open(g, rules, now)
	ok(t, err)
	t.Cleanup(func() { ok(t, shelf.close()) })
	s.Events, err = newEvents(shelf, bucket, rules, now)
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close(context.Background())) })
	return s
}

// inSQLite opens the shelf in SQLite.
func inSQLite(t *testing.T) func(*archive.Archiver, rules, func() time.Time) (*shelf, error) {
	return func(g *archive.Archiver, r rules, now func() time.Time) (*shelf, error) {
		return openSQLite(t.Context(), g, r, now)
	}
}

// until moves the time to so many days from the start.
func (s *site) until(days float64) { s.ahead.Store(int64(days * float64(day))) }

// at is the instant so many days from the start.
func (s *site) at(days float64) slidingttl.Instant {
	return driver.Floor(s.start.Add(time.Duration(days * float64(day))))
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) request(method, path string, form url.Values) (int, string) {
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// shows wants the page at path to have all of parts.
func (s *site) shows(path string, parts ...string) {
	s.t.Helper()
	status, body := s.request("GET", path, nil)
	if status != http.StatusOK {
		s.t.Errorf("%s: status %d", path, status)
	}
	for _, p := range parts {
		if !strings.Contains(body, p) {
			s.t.Errorf("%s lacks %q:\n%s", path, p, body)
		}
	}
}

func (s *site) begin(title string) (id string) {
	s.t.Helper()
	id, err := s.Begin(s.t.Context(), title)
	ok(s.t, err)
	return id
}

// stages wants the events of these titles in these stages, the latest first, without a
// visit to any: "Launch active".
func (s *site) stages(want ...string) {
	s.t.Helper()
	all, err := s.All(s.t.Context(), 0)
	ok(s.t, err)
	var got []string
	for _, e := range all {
		got = append(got, e.Title+" "+string(e.Stage))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("all events are %q, want %q", got, want)
	}
}

// recent wants these titles to be listed as recent, the latest first.
func (s *site) recent(want ...string) {
	s.t.Helper()
	marks, err := s.Recent(s.t.Context())
	ok(s.t, err)
	var got []string
	for _, m := range marks {
		got = append(got, m.Title)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("%q are recent, want %q", got, want)
	}
}

// archived wants the archive to hold these titles for these reasons, and nothing else:
// "Launch idle".
func (s *site) archived(want ...string) {
	s.t.Helper()
	var got []string
	for a, err := range archive.NewReader(s.archive).All(s.t.Context(), archive.Span{}) {
		ok(s.t, err)
		e, err := archived(&a)
		ok(s.t, err)
		got = append(got, e.Title+" "+string(e.Why))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Errorf("the archive has %q, want %q", got, want)
	}
}

func (s *site) visit(id string) Seen {
	s.t.Helper()
	e, err := s.Visit(s.t.Context(), id)
	ok(s.t, err)
	return e
}

// buried waits until an event that has left the store is in the archive.
func (s *site) buried(id string) Seen {
	s.t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(20 * time.Millisecond) {
		e, err := s.Visit(s.t.Context(), id)
		if !errors.Is(err, slidingttl.ErrNotFound) {
			if ok(s.t, err); e.Stage == Archived {
				return e
			}
		}
	}
	s.t.Fatal("an event that should have left the store is not in the archive")
	return Seen{}
}

func TestLifeOnVirtualTime(t *testing.T) {
	s := newSite(t, inSQLite(t))
	s.until(-0.2)
	earlier := s.begin("Rehearsal")
	s.until(0)
	forgotten := s.begin("Launch")
	s.until(0.5)
	followed := s.begin("Festival")
	s.recent("Festival", "Launch", "Rehearsal")
	s.until(3.25)
	s.recent("Festival") // the markers of the others have lived for three days
	s.until(4)
	s.recent()
	s.stages("Festival active", "Launch active", "Rehearsal active")
	s.visit(followed)

	s.until(7.9)
	s.stages("Festival active", "Launch active", "Rehearsal ended") // which is no visit
	s.until(8)
	s.stages("Festival active", "Launch ended", "Rehearsal ended")
	want := Seen{
		ID: forgotten, Event: Event{Title: "Launch"}, Stage: Ended, Why: archive.Idle,
		Began: s.at(0), Ends: s.at(8), Leaves: s.at(68),
	}
	if e := s.visit(forgotten); !reflect.DeepEqual(e, want) {
		t.Errorf("as ended it is %+v, want %+v", e, want)
	}
	for day := 9.0; day < 30.5; day += 5 {
		s.until(day)
		if e := s.visit(followed); e.Stage != Active {
			t.Errorf("on day %v the event that is visited is %s", day, e.Stage)
		}
	}
	s.until(30.5)
	s.stages("Festival ended", "Launch history", "Rehearsal history") // visits make no event older than 30 days
	s.until(67.9)
	s.buried(earlier)
	s.stages("Festival history", "Launch history", "Rehearsal archived")
	s.until(68)
	want.Stage, want.Leaves, want.Entered = Archived, 0, s.at(68)
	if e := s.buried(forgotten); !reflect.DeepEqual(e, want) {
		t.Errorf("from the archive it is %+v, want %+v", e, want)
	}
	s.stages("Festival history", "Launch archived", "Rehearsal archived")
	s.archived("Launch idle", "Rehearsal idle")
	s.until(90.5)
	s.buried(followed)
	s.stages("Festival archived", "Launch archived", "Rehearsal archived")
	s.archived("Festival age", "Launch idle", "Rehearsal idle") // and no marker
	if _, err := s.Visit(t.Context(), "another"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("an event that never was: %v", err)
	}
}

// An event is ended by hand, closed to comments at once, and goes the way of the others.
func TestEnded(t *testing.T) {
	s := newSite(t, inSQLite(t))
	id := s.begin("Launch")
	event := "/event/" + id
	post := func(path, text string, want int) {
		t.Helper()
		if status, body := s.request("POST", event+path, url.Values{"text": {text}}); status != want {
			t.Errorf("%s: status %d, want %d:\n%s", path, status, want, body)
		}
	}
	s.shows(event, `action="`+event+`/comment"`, "There is none.")
	post("/comment", " <i>I come</i> ", http.StatusSeeOther)
	post("/comment", "", http.StatusBadRequest)
	post("/comment", strings.Repeat("x", maxText+1), http.StatusBadRequest)
	s.shows(event, "<li>&lt;i&gt;I come&lt;/i&gt;</li>", `action="`+event+`/end"`)
	s.until(1)
	post("/end", "", http.StatusSeeOther)
	s.shows(event, "<li>&lt;i&gt;I come&lt;/i&gt;</li>", `<span class="tag ended">`, "Closed: the event has ended.", "ended 0.0 days ago, by hand; closed to comments")
	s.recent()
	post("/comment", "late", http.StatusConflict)
	post("/end", "", http.StatusConflict)
	ended := s.at(1).Add(-time.Minute) // Retire dates a death by Options.MaxSkew before the call
	want := Seen{
		ID: id, Event: Event{"Launch", []string{"<i>I come</i>"}, true}, Stage: Ended, Why: archive.Idle,
		Began: s.at(0), Ends: ended, Leaves: ended.Add(60 * day),
	}
	if e := s.visit(id); !reflect.DeepEqual(e, want) {
		t.Errorf("ended it is %+v, want %+v", e, want)
	}
	s.until(8)
	s.stages("Launch history")
	s.until(61)
	want.Stage, want.Leaves, want.Entered = Archived, 0, s.at(61)
	if e := s.buried(id); !reflect.DeepEqual(e, want) {
		t.Errorf("from the archive it is %+v, want %+v", e, want)
	}
	s.shows(event, "<li>&lt;i&gt;I come&lt;/i&gt;</li>", "ended 60.0 days ago, by hand; in the archive")

	// Who ends an event and dies before its life is over leaves one that takes no comments.
	id = s.begin("Half")
	_, err := s.events.Update(t.Context(), id, func(v Event) (Event, error) { v.Closed = true; return v, nil })
	ok(t, err)
	if err := s.Comment(t.Context(), id, "late"); err != errClosed {
		t.Errorf("a comment on what is closed: %v", err)
	}
	full := s.begin("Full")
	for range maxNotes {
		ok(t, s.Comment(t.Context(), full, "x"))
	}
	if err := s.Comment(t.Context(), full, "x"); err != errFull {
		t.Errorf("one comment too many: %v", err)
	}
}

// The costs are those of the formula, by the prices given.
func TestCosts(t *testing.T) {
	c := listPrices
	c.records, c.size = 12<<20, 1024 // 12 GB a year
	want := []costRow{
		{"Kept: all in the store", "$3.00", "$15.00", true},
		{"With a life: active and history in the store", "$0.56", "$0.56", false}, // 68 days of 365
		{"With a life: touches", "$1.31", "$1.31", false},                         // 2 units of 2^20 records a month
		{"With a life: the archive", "$0.06", "$0.33", false},
		{"With a life: together", "$1.93", "$2.20", true},
	}
	if got := c.Rows(); !slices.Equal(got, want) {
		t.Errorf("the costs are\n%v, want\n%v", got, want)
	}
	s := newSite(t, inSQLite(t))
	s.costs = c
	s.shows("/", "12.6 million events a year", "<td>$15.00</td>", "$0.625 a million write units", "AWS price list")
}

func TestPages(t *testing.T) {
	s := newSite(t, inSQLite(t))
	s.shows("/", "None began", "There is none yet", `href="/?watch"`, "a file of SQLite", "A day is 24h0m0s")
	s.shows("/style.css", "rect.history")
	s.shows("/?watch", `<meta http-equiv="refresh" content="86400">`, "Stop watching")
	for _, bad := range []string{"", " ", strings.Repeat("x", maxTitle+1)} {
		if status, body := s.request("POST", "/event", url.Values{"title": {bad}}); status != http.StatusBadRequest || !strings.Contains(body, "1 to 80") {
			t.Errorf("begun with %q: status %d", bad, status)
		}
	}
	if status, _ := s.request("POST", "/event", url.Values{"title": {" <b>Launch</b> "}}); status != http.StatusSeeOther {
		t.Errorf("begun: status %d", status)
	}
	marks, err := s.Recent(t.Context())
	ok(t, err)
	event := "/event/" + marks[0].ID
	rect := func(stage Stage, from, to float64) string { // of days from now
		const width = 190
		return fmt.Sprintf(`<rect class="%s" x="%.2f%%" y="4" width="%.2f%%" height="12"/>`, stage, 50+100*from/width, 100*(to-from)/width)
	}
	title := `href="` + event + `">&lt;b&gt;Launch&lt;/b&gt;</a>`
	s.shows("/", `<li><a class="button" `+title, `<th scope="row"><a `+title, `<span class="tag active">`,
		"for 8.0 days more, if nobody visits it", rect(Active, 0, 8), rect(Ended, 8, 15), rect(History, 15, 68))

	s.until(9)
	s.shows("/", "None began", `<th scope="row"><a `+title, `<span class="tag ended">`,
		"ended 1.0 days ago, for nobody visited it; closed to comments, readable for 59.0 days more",
		rect(Active, -9, -1), rect(Ended, -1, 6), rect(History, 6, 59))
	s.shows(event, "&lt;b&gt;Launch&lt;/b&gt;</h1>", `<span class="tag ended">`, "Closed: the event has ended.")
	s.until(15)
	s.shows(event, `<span class="tag history">`, "ended 7.0 days ago, for nobody visited it; readable for 53.0 days more")

	s.until(68)
	s.buried(marks[0].ID)
	s.until(70)
	for _, path := range []string{"/", event} {
		s.shows(path, title, `<span class="tag archived">`, "ended 62.0 days ago, for nobody visited it; in the archive for 2.0 days",
			rect(Active, -70, -62), rect(Ended, -62, -55), rect(History, -55, -2), rect(Archived, -2, 95))
	}
	s.until(110)
	s.shows("/", "There is none yet") // within the time that it shows
	s.shows(event, `<span class="tag archived">`)
	if status, body := s.request("GET", "/event/another", nil); status != http.StatusNotFound || !strings.Contains(body, "no such event") {
		t.Errorf("an event that never was: status %d", status)
	}
	for i := range maxLines + 2 {
		s.begin(fmt.Sprint("Event ", i))
	}
	s.shows("/", "And 2 earlier ones")
}

// TestLifeOnDynamoDB has TTL remove events of two tables at once, for it takes its time.
func TestLifeOnDynamoDB(t *testing.T) {
	server := dynamodbtest.StartTTL(t)
	s, h := openLambda(t, server, server.Table(t))
	t.Run("stream", func(t *testing.T) { t.Parallel(); testStream(t, server) })
	t.Run("lambda", func(t *testing.T) { t.Parallel(); testLambda(t, server, s, h) })
}

// testStream has one event go through what the store holds, while the clock of the
// example runs ahead, and one that began a hundred days ago go the whole way, for TTL and
// the stream know one time alone.
func testStream(t *testing.T, server *dynamodbtest.Server) {
	db := &backend.DynamoDB{Client: server.Client(), Streams: server.Streams()}
	table := server.Table(t)
	s := newSite(t, func(g *archive.Archiver, r rules, _ func() time.Time) (*shelf, error) {
		return openTable(t.Context(), db, table, g, r)
	})
	items := func() int {
		out, err := db.Client.Scan(t.Context(), &awsdynamodb.ScanInput{TableName: &table, Select: types.SelectCount})
		ok(t, err)
		return int(out.Count)
	}

	s.until(-100)
	old := s.begin("Founding") // which TTL may remove at once
	s.until(0)
	id := s.begin("Launch")
	s.recent("Launch")
	s.until(4)
	s.recent() // though its marker's item is there
	if e := s.visit(id); e.Stage != Active || e.Title != "Launch" {
		t.Errorf("on day 4 it is %+v", e)
	}
	s.until(12)
	want := Seen{
		ID: id, Event: Event{Title: "Launch"}, Stage: Ended, Why: archive.Idle,
		Began: s.at(0), Ends: s.at(12), Leaves: s.at(72),
	}
	if e := s.visit(id); !reflect.DeepEqual(e, want) {
		t.Errorf("as ended it is %+v, want %+v", e, want)
	}
	page, err := s.shelf.events.Scan(t.Context(), first(t, s.shelf.events), 10)
	ok(t, err)
	for _, r := range page.Records {
		if r.Key == id && r.HeldUntil != want.Leaves {
			t.Errorf("the table holds it until %v, want %v", r.HeldUntil.Time(), want.Leaves.Time())
		}
	}

	begun := time.Now()
	for items() > 2 { // TTL removes the old one and its marker, and tells nobody but the stream
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("TTL has left %d items", items())
		}
		time.Sleep(100 * time.Millisecond)
	}
	// What is deleted after that the stream tells last.
	ok(t, s.shelf.events.Delete(t.Context(), id))
	if e := s.buried(old); e.Title != "Founding" {
		t.Errorf("from the archive it is %+v", e)
	}
	s.buried(id)
	s.archived("Founding idle", "Launch deleted") // and no marker
	s.stages("Launch archived", "Founding archived")
	s.shows("/event/"+old, "Founding", "in the archive")
	s.shows("/event/"+id, "for somebody deleted it")
}

func first(t *testing.T, d driver.Scanner) driver.Cursor {
	t.Helper()
	segments, err := d.Segments(t.Context(), 1)
	ok(t, err)
	return segments[0]
}

func TestOtherDrivers(t *testing.T) {
	_, err := open(t.Context(), backend.Choice{Driver: "tape"}, nil, rulesOf(day))
	if err == nil || !strings.Contains(err.Error(), "must be sqlite or dynamodb") {
		t.Errorf("error %v", err)
	}
	if err := run(t.Context(), config{day: day, lambda: true}); err == nil || !strings.Contains(err.Error(), "-lambda: needs") {
		t.Errorf("error %v", err)
	}
	if err := run(t.Context(), config{day: time.Millisecond}); cmp.Or(err, errors.New("none")).Error() != "-day 1ms: must be at least a second" {
		t.Errorf("error %v", err)
	}
}
