package function

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start sets the function up as its environment does.
func start(t *testing.T) (*Handler, string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("DEAD_ARCHIVE", dir)
	t.Setenv("DEAD_TABLE", "sessions")
	t.Setenv("DEAD_POLICY", "idle 30d, max 90d")
	t.Setenv("AWS_REGION", "eu-central-1")
	h, err := Open(t.Context())
	ok(t, err)
	return h, dir
}

func archived(t *testing.T, dir string) map[string]archive.Archived {
	t.Helper()
	d, err := archive.OpenDirectory(dir)
	ok(t, err)
	found := make(map[string]archive.Archived)
	for a, err := range archive.NewReader(d).All(t.Context(), archive.Span{}) {
		ok(t, err)
		if _, twice := found[a.Key]; twice {
			t.Errorf("%s is in the archive twice", a.Key)
		}
		found[a.Key] = a
	}
	return found
}

// An event in the form that Lambda sends, twice as it may: what has died is in the archive
// once, each with the reason, and nothing else is.
func TestEvent(t *testing.T) {
	h, dir := start(t)
	event, err := os.ReadFile(filepath.Join("testdata", "event.json"))
	ok(t, err)
	for range 2 {
		_, err := lambda.NewHandler(h.Handle).Invoke(t.Context(), event)
		ok(t, err)
	}
	found := archived(t, dir)
	if want := []string{"aged", "idle", "overwritten"}; !slices.Equal(slices.Sorted(maps.Keys(found)), want) {
		t.Fatalf("archived are %q, want %q", slices.Sorted(maps.Keys(found)), want)
	}
	expired := driver.Floor(time.Unix(1767225600, 0))
	for key, want := range map[string]archive.Record{
		"idle": {ExpiredAt: expired, Reason: archive.Idle}, "aged": {ExpiredAt: expired, Reason: archive.Age},
		"overwritten": {ExpiredAt: expired, Reason: archive.Idle},
	} {
		if got := found[key]; got.ExpiredAt != want.ExpiredAt || got.Reason != want.Reason || got.Source != "sessions" || got.Format != "dynamodb-json" {
			t.Errorf("%s is archived as %+v", key, got)
		}
	}

	// The item is archived as it came, every type of it.
	var sent struct {
		Records []struct {
			Dynamodb struct{ OldImage map[string]any }
		}
	}
	ok(t, json.Unmarshal(event, &sent))
	var got map[string]any
	ok(t, json.Unmarshal(found["idle"].Value, &got))
	want, err := json.Marshal(sent.Records[0].Dynamodb.OldImage)
	ok(t, err)
	again, err := json.Marshal(got)
	ok(t, err)
	if string(want) != string(again) {
		t.Errorf("the item is archived as\n%s\nit was\n%s", again, want)
	}
}

// The records that AWS's own package has as samples are read as what they are, inserts; and
// when their items are removed by the TTL service, every type in them is archived as it came.
func TestRecordedEvent(t *testing.T) {
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-lambda-go").Output()
	ok(t, err)
	inserts, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "events", "testdata", "dynamodb-event.json"))
	ok(t, err)
	h, dir := start(t)
	_, err = lambda.NewHandler(h.Handle).Invoke(t.Context(), inserts)
	ok(t, err)
	if found := archived(t, dir); len(found) != 0 {
		t.Errorf("of inserts these are archived: %v", found)
	}

	var event struct{ Records []map[string]any }
	ok(t, json.Unmarshal(inserts, &event))
	items := make(map[string]map[string]any)
	for _, r := range event.Records {
		change := r["dynamodb"].(map[string]any)
		item := change["NewImage"].(map[string]any)
		key := r["eventID"].(string)
		item["pk"] = map[string]any{"S": key}
		item["ttl"] = map[string]any{"N": "1480642000"}
		items[key] = item
		r["eventName"], r["userIdentity"] = "REMOVE", event.Records[0]["userIdentity"]
		change["OldImage"] = item
		delete(change, "NewImage")
	}
	removes, err := json.Marshal(event)
	ok(t, err)
	_, err = lambda.NewHandler(h.Handle).Invoke(t.Context(), removes)
	ok(t, err)
	found := archived(t, dir)
	if len(found) != len(items) || len(items) == 0 {
		t.Errorf("%d items are archived, of %d", len(found), len(items))
	}
	for key, item := range items {
		var got map[string]any
		ok(t, json.Unmarshal(found[key].Value, &got))
		if !reflect.DeepEqual(got, item) || found[key].Reason != archive.Idle {
			t.Errorf("archived is, dead of %s,\n%v\nit was\n%v", found[key].Reason, got, item)
		}
	}
}

// Where the archive fails the call does, so that Lambda calls again.
func TestArchiveFails(t *testing.T) {
	h, dir := start(t)
	event, err := os.ReadFile(filepath.Join("testdata", "event.json"))
	ok(t, err)
	ok(t, os.RemoveAll(dir))
	ok(t, os.WriteFile(dir, nil, 0o600)) // no directory any more
	if _, err := lambda.NewHandler(h.Handle).Invoke(t.Context(), event); err == nil {
		t.Error("the call succeeds")
	}
}

// An item that cannot be told goes to the quarantine, as it came, and stops no other. A death that
// is yet to come stops those after it alone, and Lambda is told from where to call again.
func TestBadItems(t *testing.T) {
	h, dir := start(t)
	content, err := os.ReadFile(filepath.Join("testdata", "event.json"))
	ok(t, err)
	var event events.DynamoDBEvent
	ok(t, json.Unmarshal(content, &event))
	tell := h.dead
	h.dead = func(c dynamodb.Change) (driver.Dead, bool) {
		if key, ok := c.Old["pk"].(*types.AttributeValueMemberS); ok && key.Value == "idle" {
			c.Old["value"] = nil // as the SDK has a type that it does not know
		}
		return tell(c)
	}
	r, err := h.Handle(t.Context(), event)
	ok(t, err)
	found := archived(t, dir)
	aside := found["idle"]
	if len(r.BatchItemFailures) > 0 || len(found) != 3 || aside.Columns["problem"] == nil || !strings.Contains(string(aside.Value), `"S":"idle"`) {
		t.Errorf("%+v: archived are %q, aside %+v", r, slices.Sorted(maps.Keys(found)), aside)
	}

	h, dir = start(t)
	tell = h.dead
	h.dead = func(c dynamodb.Change) (driver.Dead, bool) {
		d, ok := tell(c)
		if d.Key == "aged" {
			d.At = driver.Floor(time.Now().Add(time.Hour))
		}
		return d, ok
	}
	r, err = h.Handle(t.Context(), event)
	ok(t, err)
	if len(r.BatchItemFailures) != 1 {
		t.Fatalf("%+v", r)
	}
	found = archived(t, dir)
	for i := range event.Records {
		c := event.Records[i].Change
		if c.SequenceNumber != r.BatchItemFailures[0].ItemIdentifier {
			continue
		}
		if key := c.Keys["pk"].String(); key != "aged" || len(found) == 0 {
			t.Errorf("to come again from %s; archived are %q", key, slices.Sorted(maps.Keys(found)))
		}
	}
}

func TestEnvironment(t *testing.T) {
	start(t)
	for name, values := range map[string][]string{"DEAD_POLICY": {"idle never"}, "DEAD_ARCHIVE": {"", "s3:///events"}, "DEAD_TABLE": {""}} {
		for _, value := range values {
			t.Run(name, func(t *testing.T) {
				t.Setenv(name, value)
				if _, err := Open(t.Context()); !errors.Is(err, slidingttl.ErrInvalid) {
					t.Errorf("with %s=%q: %v", name, value, err)
				}
			})
		}
	}
}
