package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// graves keep the records that a Stream hands over, and its position.
type graves struct {
	mu     sync.Mutex // guards the rest
	dead   map[string][]driver.Dead
	place  []byte
	errors []error
	fails  func() error  // called before each burial; nil: none fails
	buried chan struct{} // gets a value for each burial; nil: not used
}

func (g *graves) options() StreamOptions {
	return StreamOptions{
		Bury: func(_ context.Context, dead []driver.Dead) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.fails != nil {
				if err := g.fails(); err != nil {
					return err
				}
			}
			if g.dead == nil {
				g.dead = make(map[string][]driver.Dead)
			}
			for _, d := range dead {
				g.dead[d.Key] = append(g.dead[d.Key], d)
			}
			select {
			case g.buried <- struct{}{}:
			default:
			}
			return nil
		},
		Load: func(context.Context) ([]byte, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.place, nil
		},
		Save: func(_ context.Context, place []byte) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.place = slices.Clone(place)
			return nil
		},
		OnError: func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.errors = append(g.errors, err)
			panic("a hook's bug")
		},
	}
}

// follow runs s until it has told of as many deaths as want has, and requires that they are those.
func (g *graves) follow(t *testing.T, s interface{ Run(context.Context) error }, want []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	running := make(chan error, 1)
	go func() { running <- s.Run(ctx) }()
	for len(g.keys()) < len(want) && ctx.Err() == nil {
		select {
		case <-g.buried:
		case <-ctx.Done():
		}
	}
	cancel()
	if err := <-running; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v; errors %v", err, g.errors)
	}
	if !slices.Equal(g.keys(), want) {
		t.Fatalf("dead are %q, want %q; errors %v", g.keys(), want, g.errors)
	}
}

func (g *graves) keys() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.dead))
}

// gaps returns the shards of which a gap was told.
func (g *graves) gaps() (shards []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, err := range g.errors {
		var gap *GapError
		if errors.As(err, &gap) {
			shards = append(shards, gap.Shard)
		}
	}
	return shards
}

// streamed makes a table with a stream, on a server whose streams report TTL deletions as
// DynamoDB's do.
func streamed(t testing.TB, s *dynamodbtest.Server, view types.StreamViewType, opts *Options) *Driver[session] {
	t.Helper()
	client := s.Client()
	d, err := New[session](client, s.Table(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: &d.table, StreamSpecification: &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: view,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// With Options.Deletes a record that is deleted alive is reported. A dead one is always
// reported, whatever removed it.
func TestDeletes(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		d, err := New[session](&dynamodb.Client{}, "sessions", &Options{Deletes: deletes})
		if err != nil {
			t.Fatal(err)
		}
		item := func(created time.Duration) map[string]types.AttributeValue {
			return map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: "k"}, "ttl": &types.AttributeValueMemberN{Value: "1767225600"},
				"created_at": &types.AttributeValueMemberS{Value: time.Unix(1767225600, 0).Add(-time.Hour + created).UTC().Format("2006-01-02T15:04:05.000Z")},
			}
		}
		dies := time.Unix(1767225600, 0)
		for name, c := range map[string]struct {
			change      Change
			ok, deleted bool
		}{
			"alive":       {Change{Old: item(0), At: dies.Add(-time.Second)}, deletes, true},
			"dead":        {Change{Old: item(0), At: dies}, true, false},
			"by TTL":      {Change{Old: item(0), At: dies.Add(-time.Minute), ByTTL: true}, true, false},
			"overwritten": {Change{Old: item(0), New: item(time.Minute), At: dies.Add(time.Second)}, true, false},
			"at its cap":  {Change{Old: item(0), New: item(time.Minute), At: dies.Add(-time.Second)}, true, true},
		} {
			dead, ok := d.Dead(c.change)
			if ok != c.ok || dead.Deleted != c.deleted {
				t.Errorf("%s, with Deletes %t: %+v, %t", name, deletes, dead, ok)
			}
		}
	}
}

// An item without created_at is the same record as the one before or after it, unless that was dead.
func TestDeadWithoutCreatedAt(t *testing.T) {
	const ttl = 1_800_000_000
	item := func(created time.Duration, expires time.Duration) attrs {
		it := attrs{"pk": text("k")}
		if expires != 0 {
			it["ttl"] = seconds(driver.Floor(time.Unix(ttl, 0).Add(expires)))
		}
		if created != 0 {
			it["created_at"] = RFC3339.written(driver.Floor(time.Unix(ttl, 0).Add(created)))
		}
		return it
	}
	dies, ms, past := time.Nanosecond, time.Millisecond, -time.Hour // 0 is for absent
	apart := item(past, time.Hour)
	apart["slidingttl_expiry"] = apartMap(driver.Floor(time.Unix(ttl, 0)), driver.Floor(time.Unix(ttl, 0).Add(time.Hour)), 7)
	millis := item(0, dies)
	millis["ttl"] = number(strconv.Itoa(ttl*1000 - 500))
	opts := Options{LifeTable: "lives", Hold: time.Hour}
	d, err := New[session](&dynamodb.Client{}, "sessions", &opts)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, new attrs
		at       time.Duration
		ok       bool
	}{
		"a foreign record, replaced an hour after":           {item(0, dies), item(time.Hour, 2*time.Hour), time.Hour, true},
		"the same, by DynamoDB Local's minutes":              {item(0, dies), item(ms, time.Hour), -50 * time.Second, true},
		"the same, by a restored record":                     {item(0, dies), item(past, 2*time.Hour), time.Hour, true},
		"a foreign record, replaced by one that is foreign":  {item(0, dies), item(0, time.Hour), time.Second, true},
		"our record, replaced by one that is foreign":        {item(past, dies), item(0, time.Hour), time.Second, true},
		"the same, by one without an expiry":                 {item(past, dies), item(0, 0), time.Second, true},
		"our record, alive, overwritten by a foreign one":    {item(past, dies), item(0, time.Hour), -time.Second, false},
		"a foreign record, adopted":                          {item(0, dies), item(-time.Minute, time.Hour), -time.Minute, false},
		"the same, at the last moment and late":              {item(0, dies), item(-ms, time.Hour), time.Second, false},
		"a foreign record without an expiry, adopted":        {item(0, 0), item(ms, time.Hour), time.Minute, false},
		"a dead foreign record of which another field moves": {item(0, dies), item(0, dies), time.Minute, false},
		"a dead foreign record, mended":                      {millis, item(0, dies), time.Minute, false},
		"a life in Options.LifeTable, which is not read":     {apart, item(0, 2*time.Hour), time.Minute, true},
	} {
		dead, ok := d.Dead(Change{Old: c.old, New: c.new, At: time.Unix(ttl, 0).Add(c.at)})
		if ok != c.ok || ok && (dead.At.Time().Unix() != ttl || dead.Deleted) {
			t.Errorf("%s: %+v, %t", name, dead, ok)
		}
	}
}

// TestDeadReplacedByInsert asks of a dead record of another program that the driver itself replaces.
func TestDeadReplacedByInsert(t *testing.T) {
	tbl := open[session](t, nil)
	ttl := base.Add(-time.Hour)
	tbl.put(t, "k", attrs{"user": text("theirs"), "ttl": seconds(ttl)})
	old := tbl.raw(t, "k")
	tbl.mustInsert(t, "k", session{User: "ours"}, lasting(time.Hour), base)
	dead, ok := tbl.Dead(Change{Old: old, New: tbl.raw(t, "k"), At: base.Time()})
	if !ok || dead.At != ttl || dead.Deleted {
		t.Errorf("a record that was dead for an hour, replaced: %+v, %t", dead, ok)
	}
}

// Records that the TTL service removes, that are deleted, and that an overwrite ends are
// reported, each with its cause, and no others.
func TestStream(t *testing.T) {
	t.Parallel() // it waits for the emulator's TTL
	server := dynamodbtest.StartTTL(t)
	d := streamed(t, server, types.StreamViewTypeNewAndOldImages, &Options{Deletes: true})
	now := driver.Floor(time.Now())
	life := func(created, expires time.Duration) driver.Life {
		return driver.Life{CreatedAt: now.Add(created), ExpiresAt: now.Add(expires).RoundUp(time.Second)}
	}
	insert := func(key string, l driver.Life) driver.Meta {
		t.Helper()
		v, err := d.Insert(t.Context(), key, session{User: key}, l, l.CreatedAt)
		if err != nil {
			t.Fatal(err)
		}
		return driver.Meta{Life: l, Version: v}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ttl := life(-time.Hour, -time.Minute)
	insert("by ttl", ttl)
	insert("alive", life(-time.Hour, time.Hour))
	insert("deleted", life(-time.Hour, time.Hour))
	check(d.Delete(t.Context(), "deleted"))
	was := insert("touched", life(-time.Hour, time.Hour))
	_, err := d.Touch(t.Context(), "touched", was, life(-time.Hour, 2*time.Hour), now)
	check(err)
	was = insert("overwritten", life(-2*time.Hour, time.Hour))
	_, err = d.Replace(t.Context(), "overwritten", session{User: "anew"}, was, life(0, time.Hour), now)
	check(err)
	reaped := life(-2*time.Hour, -2*time.Minute)
	insert("reaped", reaped)
	check(d.Delete(t.Context(), "reaped"))

	g := graves{buried: make(chan struct{}, 1)}
	s, err := d.Stream(server.Streams(), g.options())
	check(err)
	g.follow(t, s, []string{"by ttl", "deleted", "overwritten", "reaped"})
	for key, expired := range map[string]driver.Life{"by ttl": ttl, "reaped": reaped} {
		if got := g.dead[key][0]; len(g.dead[key]) != 1 || got.At != expired.ExpiresAt || got.Deleted || got.Life != expired || got.Format != "dynamodb-json" {
			t.Errorf("%s was buried as %+v", key, g.dead[key])
		}
	}
	for _, key := range []string{"deleted", "overwritten"} {
		if got := g.dead[key][0]; len(g.dead[key]) != 1 || !got.Deleted || got.At < now.Add(-time.Minute) || got.At > now.Add(2*time.Minute) {
			t.Errorf("%s was buried as %+v", key, g.dead[key])
		}
	}
	var value map[string]map[string]string
	if err := json.Unmarshal(g.dead["by ttl"][0].Value, &value); err != nil || value["user"]["S"] != "by ttl" {
		t.Errorf("its value is %s, %v", g.dead["by ttl"][0].Value, err)
	}
	if stats := s.Stats(); stats.Dead != 4 || stats.Records < 9 || stats.Failed != 0 || stats.Latest.IsZero() {
		t.Errorf("stats %+v", stats)
	}
	if lag := time.Since(s.Through()); lag < 0 || lag > time.Hour {
		t.Errorf("it is %v behind", lag)
	}
	if strings.Contains(string(g.place), "ttl") {
		t.Errorf("the place holds a key: %s", g.place)
	}

	// Another process goes on from the place, and finds nothing.
	again := graves{place: g.place}
	s, err = d.Stream(server.Streams(), again.options())
	check(err)
	if news, err := s.round(t.Context()); err != nil || news || len(again.dead) != 0 {
		t.Errorf("from the place: %v, %v, %q", news, err, again.keys())
	}

	// A stream with a wrong view, and a table without one.
	s, err = streamed(t, server, types.StreamViewTypeKeysOnly, &Options{Deletes: true}).Stream(server.Streams(), again.options())
	check(err)
	wantInvalid(t, "a view of keys", s.Run(t.Context()), "stream", "KEYS_ONLY")
	bare, err := New[session](server.Client(), server.Table(t), nil)
	check(err)
	check(bare.EnsureTable(t.Context()))
	s, err = bare.Stream(server.Streams(), again.options())
	check(err)
	wantInvalid(t, "a table without a stream", s.Run(t.Context()), "table "+bare.table)
	o := again.options()
	o.ARN = strings.Replace("arn:aws:dynamodb:ddblocal:000000000000:table/none/stream/2026-01-01T00:00:00.000", "none", d.table, 1)
	s, err = d.Stream(server.Streams(), o)
	check(err)
	wantInvalid(t, "no such stream", s.Run(t.Context()), "stream")
}

// river is a stream that splits its shards, trims them and fails, which DynamoDB Local does not.
// Each of its records removes the item of a key.
type river struct {
	mu       sync.Mutex // guards the rest
	shards   []*reach
	disabled bool
	odd      string                // the key of an item with an attribute of a type that the SDK does not know
	fails    func(op string) error // nil: nothing does
	calls    map[string]int
	read     []string // the keys, in the order in which they were handed out
}

// reach is a shard.
type reach struct {
	id, parent string
	keys       []string
	trimmed    int       // the number of trimmed records
	closed     bool      // it gets no more records
	empty      int       // the number of empty pages before the next record
	at         time.Time // of its records; zero: base
	refused    bool      // its records are
}

func (r *river) call(op string) error {
	r.calls[op]++
	if r.fails != nil {
		return r.fails(op)
	}
	return nil
}

func (r *river) of(id string) *reach {
	for _, s := range r.shards {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (r *river) DescribeStream(_ context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call("DescribeStream"); err != nil {
		return nil, err
	}
	d := &streams.StreamDescription{StreamArn: in.StreamArn, StreamStatus: streams.StreamStatusEnabled, StreamViewType: streams.StreamViewTypeNewAndOldImages}
	if r.disabled {
		d.StreamStatus = streams.StreamStatusDisabled
	}
	from := 0
	if in.ExclusiveStartShardId != nil {
		from = slices.IndexFunc(r.shards, func(s *reach) bool { return s.id == *in.ExclusiveStartShardId }) + 1
	}
	for i := from; i < len(r.shards); i++ {
		s := r.shards[i]
		shard := streams.Shard{ShardId: &s.id, SequenceNumberRange: &streams.SequenceNumberRange{}}
		if s.parent != "" {
			shard.ParentShardId = &s.parent
		}
		if s.closed {
			shard.SequenceNumberRange.EndingSequenceNumber = aws.String(fmt.Sprint(len(s.keys)))
		}
		d.Shards = append(d.Shards, shard)
		if len(d.Shards) == 2 && i < len(r.shards)-1 { // pages of two
			d.LastEvaluatedShardId = &s.id
			break
		}
	}
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: d}, nil
}

func (r *river) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call("GetShardIterator"); err != nil {
		return nil, err
	}
	s := r.of(*in.ShardId)
	if s == nil {
		return nil, &streams.ResourceNotFoundException{}
	}
	at := s.trimmed
	if in.ShardIteratorType == streams.ShardIteratorTypeAfterSequenceNumber {
		if _, err := fmt.Sscan(*in.SequenceNumber, &at); err != nil {
			return nil, err
		}
		if at <= s.trimmed {
			return nil, &streams.TrimmedDataAccessException{}
		}
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String(fmt.Sprint(s.id, " ", at))}, nil
}

func (r *river) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call("GetRecords"); err != nil {
		return nil, err
	}
	var id string
	var at int
	if _, err := fmt.Sscan(*in.ShardIterator, &id, &at); err != nil {
		return nil, err
	}
	s := r.of(id)
	if s == nil {
		return nil, &streams.ResourceNotFoundException{}
	}
	if s.refused {
		return nil, &streams.LimitExceededException{}
	}
	if at < s.trimmed {
		return nil, &streams.TrimmedDataAccessException{}
	}
	out := &dynamodbstreams.GetRecordsOutput{}
	if s.empty > 0 {
		s.empty--
		out.NextShardIterator = in.ShardIterator
		return out, nil
	}
	for ; at < len(s.keys) && len(out.Records) < 3; at++ {
		key := s.keys[at]
		r.read = append(r.read, key)
		when := base.Time()
		if !s.at.IsZero() {
			when = s.at
		}
		out.Records = append(out.Records, streams.Record{
			EventName:    streams.OperationTypeRemove,
			UserIdentity: &streams.Identity{Type: aws.String("Service"), PrincipalId: aws.String("dynamodb.amazonaws.com")},
			Dynamodb: &streams.StreamRecord{
				ApproximateCreationDateTime: &when,
				SequenceNumber:              aws.String(fmt.Sprint(at + 1)),
				OldImage: map[string]streams.AttributeValue{
					"pk":         &streams.AttributeValueMemberS{Value: key},
					"created_at": &streams.AttributeValueMemberS{Value: base.Add(-time.Hour).Time().Format(time.RFC3339)},
					"ttl":        &streams.AttributeValueMemberN{Value: fmt.Sprint(base.Time().Unix())},
				},
			},
		})
		if key == r.odd {
			out.Records[len(out.Records)-1].Dynamodb.OldImage["value"] = nil
		}
	}
	if at < len(s.keys) || !s.closed {
		out.NextShardIterator = aws.String(fmt.Sprint(id, " ", at))
	}
	return out, nil
}

func numberedKeys(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return keys
}

// flowing returns a Stream of r. Its driver makes no requests.
func (r *river) flowing(t testing.TB, o StreamOptions) *Stream {
	t.Helper()
	r.calls = make(map[string]int)
	d, err := New[session](new(dynamodb.Client), "t", nil)
	if err != nil {
		t.Fatal(err)
	}
	o.ARN = "arn"
	s, err := d.stream(r, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs s for some time.
func (g *graves) run(t *testing.T, s *Stream, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Child shards are read after their parents, also if there are many, and a disabled stream ends.
func TestStreamReshards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{disabled: true, shards: []*reach{
			{id: "c", parent: "b", keys: numberedKeys("c", 7), closed: true},
			{id: "b1", parent: "a", keys: numberedKeys("b1", 7), closed: true},
			{id: "d", parent: "c", keys: numberedKeys("d", 7), closed: true},
			{id: "b", parent: "a", keys: numberedKeys("b", 7), closed: true},
			{id: "a", parent: "long gone", keys: numberedKeys("a", 7), closed: true},
		}}
		var g graves
		s := r.flowing(t, g.options())
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(g.dead) != 35 || len(r.read) != 35 || len(g.errors) != 0 {
			t.Errorf("%d are dead, %d records read, errors %v", len(g.dead), len(r.read), g.errors)
		}
		for _, pair := range [][2]string{{"a-06", "b-00"}, {"a-06", "b1-00"}, {"b-06", "c-00"}, {"c-06", "d-00"}} {
			if slices.Index(r.read, pair[0]) > slices.Index(r.read, pair[1]) {
				t.Errorf("%s is read after %s", pair[0], pair[1])
			}
		}
		// The position drops trimmed shards.
		r.shards = []*reach{{id: "e", parent: "d", keys: numberedKeys("e", 2), closed: true}}
		s = r.flowing(t, g.options())
		if err := s.Run(t.Context()); err != nil || len(g.dead) != 37 {
			t.Errorf("%v, %d are dead", err, len(g.dead))
		}
		if strings.Contains(string(g.place), `"a"`) || !strings.Contains(string(g.place), `"e"`) {
			t.Errorf("the place is %s", g.place)
		}
	})
}

// A shard splits while it is read, and more records come later.
func TestStreamGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{shards: []*reach{{id: "a", keys: numberedKeys("a", 4)}}}
		var g graves
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := r.flowing(t, g.options())
		running := make(chan error, 1)
		go func() { running <- s.Run(ctx) }()
		time.Sleep(30 * time.Second)
		if len(g.keys()) != 4 {
			t.Errorf("dead are %q", g.keys())
		}
		r.mu.Lock()
		r.shards[0].keys = append(r.shards[0].keys, "a-late")
		r.shards[0].closed = true
		r.shards = append(r.shards, &reach{id: "b", parent: "a", keys: numberedKeys("b", 2)})
		r.mu.Unlock()
		time.Sleep(5 * time.Second)
		if len(g.keys()) != 7 {
			t.Errorf("dead are %q", g.keys())
		}
		cancel()
		if err := <-running; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Through is never past a record that is not buried, whatever fails, splits or ends, and does not stay behind.
func TestStreamThrough(t *testing.T) {
	failure := errors.New("failure")
	for name, meanwhile := range map[string]func(r *river, g *graves, n int){
		"a shard ends without more records": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards[0].closed = true
				r.shards = append(r.shards, &reach{id: "c", parent: "a", keys: numberedKeys("c", 2), at: time.Now()})
			}
		},
		"it splits, and its halves too": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards[0].closed = true
				r.shards = append(r.shards, &reach{id: "c", parent: "a", at: time.Now(), closed: true})
				r.shards = append(r.shards, &reach{id: "d", parent: "c", keys: numberedKeys("d", 2), at: time.Now()})
			}
		},
		"empty pages come before records": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards[0].closed = true
				r.shards = append(r.shards, &reach{id: "c", parent: "a", keys: numberedKeys("c", 9), at: time.Now(), empty: emptyPages - 1})
			}
		},
		"a shard is not listed yet": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards = append(r.shards, &reach{id: "c", keys: numberedKeys("c", 2), at: time.Now()})
			}
		},
		"a parent is trimmed": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards = append(r.shards[1:], &reach{id: "c", parent: "a", keys: numberedKeys("c", 2), at: time.Now()})
			}
		},
		"burials fail": func(r *river, g *graves, n int) {
			if n == 3 {
				r.shards = append(r.shards, &reach{id: "c", keys: numberedKeys("c", 9), at: time.Now()})
				g.fails = func() error { return failure }
			}
			if n == 30 {
				g.fails = nil
			}
		},
		"reads fail": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards = append(r.shards, &reach{id: "c", keys: numberedKeys("c", 9), at: time.Now()})
			}
			if r.fails = nil; n > 3 && n < 30 {
				r.fails = func(op string) error {
					if r.calls[op]%2 == 0 {
						return failure
					}
					return nil
				}
			}
		},
		"more than one round": func(r *river, _ *graves, n int) {
			if n == 3 {
				r.shards[0].closed = true
				r.shards = append(r.shards, &reach{id: "c", parent: "a", keys: numberedKeys("c", 40), at: time.Now(), closed: true})
				r.shards = append(r.shards, &reach{id: "d", parent: "c", keys: numberedKeys("d", 40), at: time.Now()})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r := &river{shards: []*reach{{id: "a", keys: numberedKeys("a", 2), at: began}, {id: "b", keys: numberedKeys("b", 2), at: began}}}
				var g graves
				o := g.options()
				o.Batch = 4
				s := r.flowing(t, o)
				for n := range 60 {
					time.Sleep(time.Second)
					meanwhile(r, &g, n)
					_, _ = s.round(t.Context())
					through := s.Through()
					for _, shard := range r.shards {
						for _, key := range shard.keys {
							if g.dead[key] == nil && through.After(shard.at) {
								t.Fatalf("in round %d it is through to %v after the start; %s, of %v, is not buried", n, through.Sub(began), key, shard.at.Sub(began))
							}
						}
					}
				}
				if behind := time.Since(s.Through()); behind > discoverEvery {
					t.Errorf("in the end it is %v behind", behind)
				}
			})
		})
	}
}

// Records that were trimmed before they were read are reported as a gap, and reading continues.
func TestStreamTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := graves{place: []byte(`{"stream":"arn","shards":{"a":{"after":"2"},"gone":{"after":"9"},"done":{"done":true}}}`)}
		r := &river{disabled: true, shards: []*reach{{id: "a", keys: numberedKeys("a", 9), trimmed: 5, closed: true}, {id: "b", parent: "gone", keys: numberedKeys("b", 1), closed: true}}}
		s := r.flowing(t, g.options())
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var gap *GapError
		if len(g.dead) != 5 || len(g.errors) != 2 || s.Stats().Gaps != 2 || !errors.As(g.errors[0], &gap) {
			t.Errorf("dead are %q, errors %v", g.keys(), g.errors)
		}
	})
}

// Of a shard without a record that was read DynamoDB does not tell that it trimmed some. The time for which the stream was not
// read does. Where none can be lost, no gap is told of.
func TestStreamMissed(t *testing.T) {
	idle := []*reach{{id: "a"}}
	trimmed := []*reach{{id: "a", keys: numberedKeys("a", 5), trimmed: 3, closed: true}, {id: "b", parent: "a"}}
	whole := []*reach{{id: "a"}, {id: "b", keys: numberedKeys("b", 5)}}
	for name, test := range map[string]struct {
		before []*reach // read to their ends, for an hour
		away   time.Duration
		after  []*reach
		runs   bool // refused meanwhile
		want   []string
	}{
		"a shard of which no place tells is gone": {
			before: []*reach{{id: "a", keys: numberedKeys("a", 3), closed: true}, {id: "b", parent: "a"}},
			away:   26 * time.Hour,
			after:  []*reach{{id: "c", parent: "b", keys: numberedKeys("c", 2)}, {id: "d", parent: "c"}},
			want:   []string{"b"},
		},
		"and its parent too, soon after": {
			before: []*reach{{id: "a", keys: numberedKeys("a", 3), closed: true}},
			away:   26 * time.Hour,
			after:  []*reach{{id: "c", parent: "b", keys: numberedKeys("c", 2)}, {id: "d", parent: "c"}},
			want:   []string{"c"},
		},
		"a quiet shard, trimmed":               {idle, 26 * time.Hour, trimmed, false, []string{"a"}},
		"the same, while it was refused":       {idle, 26 * time.Hour, trimmed, true, []string{"a"}},
		"the same, for two days":               {idle, 50 * time.Hour, trimmed, true, []string{"a"}},
		"a day less half an hour":              {idle, 23*time.Hour + 30*time.Minute, idle, false, nil},
		"the same, while it was refused again": {idle, 23*time.Hour + 30*time.Minute, idle, true, nil},
		"a shard of which one was read":        {whole[1:], 26 * time.Hour, whole[1:], false, nil},
		"that, beside a quiet one":             {whole, 26 * time.Hour, whole, false, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g graves
				o := g.options()
				o.Every = 5 * time.Minute
				save, saves := o.Save, 0
				o.Save = func(ctx context.Context, place []byte) error { saves++; return save(ctx, place) }
				r := &river{shards: test.before}
				s := r.flowing(t, o)
				g.run(t, s, time.Hour)
				if saves > 7 { // once at first, four times an hour, and for the records
					t.Errorf("the place was saved %d times", saves)
				}
				if test.runs {
					r.fails = func(string) error { return errors.New("AccessDeniedException") }
					g.run(t, s, test.away)
					r.fails, g.errors = nil, nil
				} else {
					time.Sleep(test.away)
					s = r.flowing(t, o)
				}
				r.shards = test.after
				for range 2 { // it is told of once
					g.run(t, s, 30*time.Hour)
					s = r.flowing(t, o)
				}
				if gaps := g.gaps(); !slices.Equal(gaps, test.want) {
					t.Errorf("gaps of %q are told of, want %q; errors %v; the place is %s", gaps, test.want, g.errors, g.place)
				}
			})
		})
	}
}

// A shard that is refused for days makes no gaps of the quiet ones beside it, and what comes after a shard that was read
// late counts from that one's end.
func TestStreamMissedByShard(t *testing.T) {
	for name, test := range map[string]struct {
		shards []*reach // the first is refused after an hour
		away   time.Duration
		want   []string
	}{
		"beside quiet ones":     {[]*reach{{id: "a"}, {id: "b"}, {id: "c"}}, 60 * time.Hour, []string{"a", "a"}},
		"for less than a day":   {[]*reach{{id: "a"}, {id: "b"}}, 22 * time.Hour, nil},
		"of which one was read": {[]*reach{{id: "a", keys: numberedKeys("a", 2)}, {id: "b"}}, 60 * time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g graves
				o := g.options()
				o.Every = 5 * time.Minute
				r := &river{shards: test.shards}
				g.run(t, r.flowing(t, o), time.Hour)
				test.shards[0].refused = true
				for left := test.away; left > 0; left -= 5 * time.Hour { // processes come and go
					g.run(t, r.flowing(t, o), min(left, 5*time.Hour))
				}
				test.shards[0].refused = false
				g.run(t, r.flowing(t, o), time.Hour)
				if gaps := g.gaps(); !slices.Equal(gaps, test.want) {
					t.Errorf("gaps of %q are told of, want %q; the place is %s", gaps, test.want, g.place)
				}
			})
		})
	}
	t.Run("a child of one that was read late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g graves
			o := g.options()
			o.Every = 5 * time.Minute
			a, b := &reach{id: "a", keys: numberedKeys("a", 2), at: time.Now()}, &reach{id: "b", parent: "a"}
			r := &river{shards: []*reach{a}}
			g.run(t, r.flowing(t, o), time.Hour)
			a.keys, a.closed, a.at = numberedKeys("a", 3), true, time.Now()
			b.refused, r.shards = true, []*reach{a, b}
			time.Sleep(20 * time.Hour)
			g.run(t, r.flowing(t, o), 3*time.Hour)
			if gaps := g.gaps(); gaps != nil {
				t.Errorf("gaps of %q are told of, want none; errors %v", gaps, g.errors)
			}
			time.Sleep(2 * time.Hour)
			b.refused = false
			g.run(t, r.flowing(t, o), time.Hour)
			if gaps := g.gaps(); !slices.Equal(gaps, []string{"b"}) {
				t.Errorf("gaps of %q are told of, want b; the place is %s", gaps, g.place)
			}
		})
	})
}

// A quiet shard that was read to its end has lost nothing when its last record is trimmed.
func TestStreamTrimmedAfterItWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{shards: []*reach{{id: "a", keys: numberedKeys("a", 3)}}}
		var g graves
		o := g.options()
		o.Every = time.Minute
		s := r.flowing(t, o)
		g.run(t, s, 25*time.Hour)
		r.shards[0].trimmed = 3
		r.shards[0].refused = true // so that it asks for another iterator
		g.run(t, s, time.Minute)
		r.shards[0].refused = false
		r.shards[0].keys = numberedKeys("a", 5)
		g.run(t, s, time.Hour)
		if s.Stats().Gaps != 0 || len(g.dead) != 5 {
			t.Errorf("%d gaps: %v; dead are %q", s.Stats().Gaps, g.errors, g.keys())
		}
	})
}

// While the end of a stream that was disabled cannot be saved, Through does not pass what dies in the table's next one.
func TestStreamThroughOfItsEndUnsaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := &river{shards: []*reach{{id: "former-a", keys: numberedKeys("former", 3), at: time.Now()}}}
		latest := &river{shards: []*reach{{id: "latest-a", keys: numberedKeys("latest", 3)}}}
		var g graves
		o := g.options()
		save := o.Save
		var ended atomic.Bool // the former stream has, and since then Save fails
		o.Save = func(ctx context.Context, place []byte) error {
			if ended.Load() {
				return errors.New("503 SlowDown")
			}
			return save(ctx, place)
		}
		s := latest.flowing(t, o)
		former.calls = latest.calls
		s.client, s.opts.ARN, s.arn = rivers{former, latest}, "", func(context.Context) (string, error) {
			if ended.Load() {
				return "arn:table/t/stream/latest", nil
			}
			return "arn:table/t/stream/former", nil
		}
		time.AfterFunc(time.Minute, func() {
			former.mu.Lock()
			defer former.mu.Unlock()
			former.disabled, former.shards[0].closed = true, true
			latest.shards[0].at = time.Now()
			ended.Store(true)
		})
		began := time.Now()
		g.run(t, s, 5*time.Hour)
		if past := s.Through().Sub(began); past > 2*time.Minute {
			t.Errorf("Through is %v after the start, and what died in the latest stream after a minute is not handed over: %q", past, g.keys())
		}
	})
}

// A gap is told before the place is saved that has it for told: the process may die there.
func TestStreamGapBeforeItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &reach{id: "a", keys: numberedKeys("a", 3), at: time.Now()}
		r := &river{shards: []*reach{a}}
		var g graves
		o := g.options()
		o.Every = time.Minute
		g.run(t, r.flowing(t, o), time.Hour)
		a.keys = numberedKeys("a", 6)
		time.Sleep(60 * time.Hour)
		a.trimmed = 6
		save := o.Save
		o.Save = func(ctx context.Context, place []byte) error {
			_ = save(ctx, place)
			runtime.Goexit()
			return nil
		}
		done := make(chan bool)
		go func() {
			defer close(done)
			_ = r.flowing(t, o).Run(t.Context())
		}()
		<-done
		if len(g.gaps()) != 1 {
			t.Errorf("gaps of %q are told of; the place is %s", g.gaps(), g.place)
		}
	})
}

// While Bury fails for one shard's records, the quiet ones beside it are read.
func TestStreamBesideFailingBury(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &reach{id: "a"}
		r := &river{shards: []*reach{a, {id: "b"}}}
		var g graves
		o := g.options()
		o.Every = time.Minute
		g.run(t, r.flowing(t, o), time.Hour)
		full := true
		g.fails = func() error {
			if full {
				return errors.New("disk full")
			}
			return nil
		}
		for n := range 3 { // every 12 hours two records die in a
			a.keys, a.at = numberedKeys("a", 2*n+2), time.Now()
			g.run(t, r.flowing(t, o), 12*time.Hour)
		}
		full = false
		g.run(t, r.flowing(t, o), time.Hour)
		if gaps := g.gaps(); slices.Contains(gaps, "b") || len(g.dead) != 6 {
			t.Errorf("gaps of %q are told of; buried are %q", gaps, g.keys())
		}
	})
}

// Run, called again after the stream that it read is gone, reads the table's latest.
func TestStreamRunsAgainAfterItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := &river{shards: []*reach{{id: "former-a", keys: numberedKeys("former", 3), at: time.Now()}}}
		latest := &river{shards: []*reach{{id: "latest-a", keys: numberedKeys("latest", 3), at: time.Now()}}}
		name := "former"
		var g graves
		s := latest.flowing(t, g.options())
		former.calls = latest.calls
		s.client, s.opts.ARN, s.arn = rivers{former, latest}, "", func(context.Context) (string, error) { return "arn:table/t/stream/" + name, nil }
		g.run(t, s, time.Minute)
		former.fails = func(string) error { return &streams.ResourceNotFoundException{} }
		wantInvalid(t, "a stream that is gone", s.Run(t.Context()), "stream")
		name = "2000-01-01T00:00:00.000-latest"
		g.run(t, s, time.Minute)
		if want := append(numberedKeys("former", 3), numberedKeys("latest", 3)...); !slices.Equal(g.keys(), want) || len(g.gaps()) != 1 {
			t.Errorf("buried are %q, want %q; gaps of %q", g.keys(), want, g.gaps())
		}
	})
}

// rivers is a table's former stream and its latest. The names of their shards begin so.
type rivers struct{ former, latest *river }

func (r rivers) of(name string) *river {
	if strings.Contains(name, "former") {
		return r.former
	}
	return r.latest
}

func (r rivers) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return r.of(*in.StreamArn).DescribeStream(ctx, in, o...)
}

func (r rivers) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return r.of(*in.StreamArn).GetShardIterator(ctx, in, o...)
}

func (r rivers) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return r.of(*in.ShardIterator).GetRecords(ctx, in, o...)
}

// A table whose stream was disabled and enabled again has another one. What is left of the former is read first, and
// Through waits for it. If it is there no more, or refused for as long as it may be, that is a gap.
func TestStreamAnew(t *testing.T) {
	gone := &streams.ResourceNotFoundException{}
	for name, test := range map[string]struct {
		first int   // records of the former that are read
		child bool  // that had a shard after the first, of which nothing was read
		err   error // of the former, in the end
		want  int
		gaps  uint64
	}{
		"the former is there":            {3, false, nil, 6, 0},
		"it was idle":                    {0, false, nil, 6, 0},
		"it is gone":                     {3, false, gone, 3, 1},
		"it is gone with a child":        {3, true, gone, 3, 1},
		"its role may read only the new": {3, false, errors.New("AccessDenied"), 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				former := &river{shards: []*reach{{id: "former-a", keys: numberedKeys("former", test.first), at: time.Now(), closed: test.child}}}
				if test.child {
					former.shards = append(former.shards, &reach{id: "former-b", parent: "former-a", at: time.Now()})
				}
				latest := &river{shards: []*reach{{id: "latest-a", keys: numberedKeys("latest", 3), at: time.Now()}}}
				var g graves
				var s *Stream
				run := func(name string) {
					o := g.options()
					o.Every = 10 * time.Minute
					bury := o.Bury
					o.Bury = func(ctx context.Context, dead []driver.Dead) error {
						if name == "latest" && !s.Through().IsZero() {
							t.Error("Through, before the former stream was read")
						}
						return bury(ctx, dead)
					}
					s = latest.flowing(t, o)
					former.calls = latest.calls
					s.client, s.opts.ARN, s.arn = rivers{former, latest}, "", func(context.Context) (string, error) { return "arn:table/t/stream/" + name, nil }
					g.run(t, s, 25*time.Hour)
				}
				run("former")
				former.disabled = true
				for _, shard := range former.shards {
					shard.keys, shard.closed = numberedKeys("former", 6), true
				}
				if test.err != nil {
					former.fails = func(string) error { return test.err }
				}
				run("latest")
				want := append(numberedKeys("former", test.want), numberedKeys("latest", 3)...)
				if !slices.Equal(g.keys(), want) || s.Stats().Gaps != test.gaps || s.Through().IsZero() {
					t.Errorf("buried are %q, want %q; %d gaps, through %v", g.keys(), want, s.Stats().Gaps, s.Through())
				}
			})
		})
	}
}

// A stream that was disabled and read to its end leaves no gap when it is gone, and Run, called again, reads the next.
func TestStreamAnewAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := &river{disabled: true, shards: []*reach{{id: "former-a", keys: numberedKeys("former", 3), closed: true}}}
		latest := &river{disabled: true, shards: []*reach{{id: "latest-a", keys: numberedKeys("latest", 3), closed: true}}}
		var g graves
		s := latest.flowing(t, g.options())
		former.calls = latest.calls
		var name string
		s.client, s.opts.ARN, s.arn = rivers{former, latest}, "", func(context.Context) (string, error) { return "arn:table/t/stream/" + name, nil }
		for _, name = range []string{"former", "latest", "latest"} {
			if err := s.Run(t.Context()); err != nil || s.Stats().Gaps != 0 {
				t.Errorf("%v, %d gaps", err, s.Stats().Gaps)
			}
			former.fails = func(string) error { return &streams.ResourceNotFoundException{} }
		}
		if len(g.dead) != 6 {
			t.Errorf("buried are %q", g.keys())
		}
	})
}

// A former stream that is refused does not hold up the latest until its records are trimmed, whatever processes come and go, and
// one that was read to its end not at all.
func TestStreamHeldUp(t *testing.T) {
	for name, test := range map[string]struct {
		ended bool // before the latest comes
		op    string
		lasts time.Duration // each process that reads the latest
		runs  int
		gaps  int
	}{
		"ended":                   {true, "", 60 * time.Hour, 1, 0},
		"processes come and go":   {false, "", 6 * time.Hour, 9, 1},
		"its shards are refused":  {false, "GetShardIterator", 6 * time.Hour, 9, 1},
		"its records are refused": {false, "GetRecords", 6 * time.Hour, 9, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				former := &river{disabled: test.ended, shards: []*reach{{id: "former-a", keys: numberedKeys("former", 3), closed: test.ended}}}
				latest := &river{shards: []*reach{{id: "latest-a"}}}
				var g graves
				run := func(label string, d time.Duration) {
					o := g.options()
					o.Every = 10 * time.Minute
					s := latest.flowing(t, o)
					former.calls = latest.calls
					s.client, s.opts.ARN, s.arn = rivers{former, latest}, "", func(context.Context) (string, error) { return "arn:table/t/stream/" + label, nil }
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					if err := s.Run(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
				run("former", time.Hour)
				former.disabled, former.shards[0].closed = true, true
				former.fails = func(op string) error {
					if test.op == "" || op == test.op {
						return errors.New("AccessDeniedException")
					}
					return nil
				}
				enabled := time.Now().Format("2006-01-02T15:04:05.000")
				done := make(chan struct{})
				go func() { // one dies each hour, and its record is kept for a day
					defer close(done)
					for n := range 60 {
						latest.mu.Lock()
						latest.shards[0].keys = numberedKeys("latest", n+1)
						latest.shards[0].trimmed = max(0, n-24)
						latest.mu.Unlock()
						time.Sleep(time.Hour)
					}
				}()
				time.Sleep(10*time.Hour + 5*time.Minute)
				for range test.runs {
					run(enabled, test.lasts)
				}
				<-done
				if want := append(numberedKeys("former", 3), numberedKeys("latest", 60)...); !slices.Equal(g.keys(), want) || len(g.gaps()) != test.gaps {
					t.Errorf("buried are %q, gaps of %q, want %d; the place is %s", g.keys(), g.gaps(), test.gaps, g.place)
				}
			})
		})
	}
}

// An error of the network, a day after the latest came, leaves no former stream that could be read.
func TestStreamFormerFailsOnce(t *testing.T) {
	for _, op := range []string{"DescribeStream", "GetRecords"} {
		synctest.Test(t, func(t *testing.T) {
			failing := 1
			former := &river{disabled: true, shards: []*reach{{id: "former-a", keys: numberedKeys("former", 3), closed: true}}}
			latest := &river{shards: []*reach{{id: "latest-a", keys: numberedKeys("latest", 3)}}}
			g := graves{place: fmt.Appendf(nil, `{"stream":"arn:table/t/stream/former","shards":{},"read":%d}`, time.Now().UnixMilli())}
			enabled := time.Now().Format("2006-01-02T15:04:05.000")
			time.Sleep(23*time.Hour + 30*time.Minute)
			s := latest.flowing(t, g.options())
			former.calls = latest.calls
			former.fails = func(name string) error {
				if name == op && failing > 0 {
					failing--
					return errors.New("connection reset by peer")
				}
				return nil
			}
			s.client, s.opts.ARN, s.arn = rivers{former, latest}, "", func(context.Context) (string, error) { return "arn:table/t/stream/" + enabled, nil }
			g.run(t, s, 5*time.Minute)
			if want := append(numberedKeys("former", 3), numberedKeys("latest", 3)...); !slices.Equal(g.keys(), want) || g.gaps() != nil {
				t.Errorf("buried are %q, want %q; gaps of %q", g.keys(), want, g.gaps())
			}
		})
	}
}

// What the latest stream has lost is told of, also where nothing of the former was.
func TestStreamAnewLate(t *testing.T) {
	for away, want := range map[time.Duration]uint64{20 * time.Hour: 0, 100 * time.Hour: 1} {
		synctest.Test(t, func(t *testing.T) {
			r := &river{shards: []*reach{{id: "latest-a"}}}
			g := graves{place: []byte(`{"stream":"arn:table/t/stream/former","shards":{},"ended":true}`)}
			enabled := time.Now().Format("2006-01-02T15:04:05.000")
			time.Sleep(away)
			s := r.flowing(t, g.options())
			s.opts.ARN, s.arn = "", func(context.Context) (string, error) { return "arn:table/t/stream/" + enabled, nil }
			g.run(t, s, time.Hour)
			if s.Stats().Gaps != want {
				t.Errorf("%v after it was enabled: %d gaps, want %d; errors %v", away, s.Stats().Gaps, want, g.errors)
			}
		})
	}
}

// One save that fails does not end Run, nor does it leave the end of a stream unsaved.
func TestStreamSaveFails(t *testing.T) {
	for failing := 1; failing <= 4; failing++ {
		synctest.Test(t, func(t *testing.T) {
			r := &river{disabled: true, shards: []*reach{{id: "a", keys: numberedKeys("a", 3), closed: true}}}
			var g graves
			o := g.options()
			save, saves := o.Save, 0
			o.Save = func(ctx context.Context, place []byte) error {
				if saves++; saves == failing {
					return errors.New("503 SlowDown")
				}
				return save(ctx, place)
			}
			s := r.flowing(t, o)
			err := s.Run(t.Context())
			if failed := s.Stats().Failed; err != nil || !strings.Contains(string(g.place), "ended") || failed != uint64(len(g.errors)) || (failed > 0) != (saves >= failing) {
				t.Errorf("Run: %v after %d saves, of which the %d. fails; %d failed, errors %v; the place is %s", err, saves, failing, failed, g.errors, g.place)
			}
		})
	}
}

// A quiet stream whose place cannot be saved is read as before, and records are handed over once.
func TestStreamUnsaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{shards: []*reach{{id: "a", keys: numberedKeys("a", 5)}}}
		var g graves
		o := g.options()
		save := o.Save
		o.Save = func(context.Context, []byte) error { return errors.New("503 SlowDown") }
		s := r.flowing(t, o)
		g.run(t, s, time.Hour)
		if behind := time.Since(s.Through()); behind > 2*discoverEvery || r.calls["GetShardIterator"] > 1 || len(g.dead["a-00"]) != 1 {
			t.Errorf("Through is %v behind, %d iterators; a record was handed over %d times", behind, r.calls["GetShardIterator"], len(g.dead["a-00"]))
		}
		s.opts.Save = save
		g.run(t, s, time.Minute)
		if !strings.Contains(string(g.place), `"after":"5"`) {
			t.Errorf("the place is %s", g.place)
		}
	})
}

// After any failure of the service the stream continues where it was. If a burial fails, its
// position stays.
func TestStreamFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{disabled: true, shards: []*reach{{id: "a", keys: numberedKeys("a", 20), closed: true}, {id: "b", parent: "a", keys: numberedKeys("b", 20), closed: true}}}
		n := 0
		r.fails = func(op string) error {
			n++
			switch {
			case n%3 == 0 && op == "GetRecords":
				return &streams.ExpiredIteratorException{}
			case n%4 == 0:
				return &streams.LimitExceededException{}
			}
			return nil
		}
		var g graves
		full := &driver.InvalidError{Field: "item", Value: "too large", Rule: "must be small"} // an error like any other
		burials := 0
		g.fails = func() error {
			if burials++; burials%2 == 1 {
				return full
			}
			return nil
		}
		o := g.options()
		o.Batch = 4
		s := r.flowing(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(g.dead) != 40 || s.Stats().Failed == 0 || !errors.Is(errors.Join(g.errors...), full) {
			t.Errorf("%d are dead, errors %v", len(g.dead), g.errors)
		}
		for key, buried := range g.dead {
			if len(buried) != 1 { // records of failed reads and burials do not count as done
				t.Errorf("%s was buried %d times", key, len(buried))
			}
		}
	})
}

// A panic or runtime.Goexit of a client's, on a goroutine of the stream's, fails its shard alone, for a round.
func TestStreamBesidePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{disabled: true, shards: []*reach{{id: "a", keys: numberedKeys("a", 3), closed: true}, {id: "b", keys: numberedKeys("b", 3), closed: true}}}
		r.fails = func(op string) error {
			if op == "GetRecords" {
				switch r.calls[op] % 3 {
				case 1:
					panic("a middleware's")
				case 2:
					runtime.Goexit()
				}
			}
			return nil
		}
		var g graves
		if err := r.flowing(t, g.options()).Run(t.Context()); err != nil || len(g.dead) != 6 {
			t.Errorf("%v: dead are %q", err, g.keys())
		}
		if all := errors.Join(g.errors...); !errors.As(all, new(*driver.PanicError)) || !errors.Is(all, hook.ErrExited) {
			t.Errorf("errors are %v, want a panic and an exit", g.errors)
		}
	})
}

// An item that the SDK cannot read is reported with its problem, and does not stop the others.
func TestStreamOddItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{disabled: true, odd: "a-01", shards: []*reach{{id: "a", keys: numberedKeys("a", 4), closed: true}}}
		var g graves
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.flowing(t, g.options()).Run(ctx); err != nil || len(g.dead) != 4 || len(g.errors) != 0 {
			t.Fatalf("%v: dead are %q, %d errors", err, g.keys(), len(g.errors))
		}
		for key, buried := range g.dead {
			if d := buried[0]; (d.Problem != nil) != (key == r.odd) || d.At != base || !strings.Contains(string(d.Value), key) {
				t.Errorf("%s was buried as %+v", key, d)
			}
		}
	})
}

// The bytes of values that are held at once are bounded too.
func TestStreamBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{disabled: true, shards: []*reach{{id: "a", keys: numberedKeys("a", 20), closed: true}}}
		var g graves
		o := g.options()
		bury, most := o.Bury, 0
		o.Bury = func(ctx context.Context, dead []driver.Dead) error {
			most = max(most, len(dead))
			return bury(ctx, dead)
		}
		s := r.flowing(t, o)
		s.bytes = 1
		if err := s.Run(t.Context()); err != nil || len(g.dead) != 20 || most != 3 { // of a page
			t.Errorf("%v, %d are dead, %d at once; want 20, and 3", err, len(g.dead), most)
		}
	})
}

// After a process died between a burial and saving the position, the same records are handed
// over again.
func TestStreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{disabled: true, shards: []*reach{{id: "a", keys: numberedKeys("a", 10), closed: true}}}
		var g graves
		o := g.options()
		died := errors.New("died")
		o.Save = func(context.Context, []byte) error { return died }
		s := r.flowing(t, o)
		if _, err := s.round(t.Context()); !errors.Is(err, died) {
			t.Fatalf("round: %v", err)
		}
		s = r.flowing(t, g.options())
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for key, buried := range g.dead {
			if len(buried) != 2 || buried[0].At != buried[1].At || string(buried[0].Value) != string(buried[1].Value) {
				t.Errorf("%s is buried of as %+v", key, buried)
			}
		}
	})
}

func TestStreamOptions(t *testing.T) {
	d, err := New[session](new(dynamodb.Client), "t", nil)
	if err != nil {
		t.Fatal(err)
	}
	var g graves
	for field, spoil := range map[string]func(*StreamOptions){
		"Bury": func(o *StreamOptions) { o.Bury = nil }, "Load": func(o *StreamOptions) { o.Load = nil },
		"Save": func(o *StreamOptions) { o.Save = nil }, "Every": func(o *StreamOptions) { o.Every = -1 },
		"Batch": func(o *StreamOptions) { o.Batch = -1 }, "Readers": func(o *StreamOptions) { o.Readers = -1 },
	} {
		o := g.options()
		spoil(&o)
		_, err := d.stream(&river{}, o)
		wantInvalid(t, field, err, "StreamOptions."+field)
	}
	_, err = d.Stream(nil, g.options())
	wantInvalid(t, "no client", err, "client")
	g.place = []byte("not a place")
	r := &river{}
	wantInvalid(t, "a place of others", r.flowing(t, g.options()).Run(t.Context()), "StreamOptions.Load")

	server := dynamodbtest.Start(t)
	d, err = New[session](server.Client(), server.Table(t)+"-none", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.place = nil
	s, err := d.Stream(server.Streams(), g.options())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var none *types.ResourceNotFoundException
	if err := s.Run(ctx); !errors.Is(err, driver.ErrRefused) || !errors.As(err, &none) {
		t.Errorf("Run of a table that does not exist: %v", err)
	}
}

// Each shard gets its turn, while those before it have new records for each round.
func TestStreamTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &river{}
		for i := range 10 {
			r.shards = append(r.shards, &reach{id: fmt.Sprint("s", i), keys: numberedKeys(fmt.Sprint("s", i), 30)})
		}
		var g graves
		o := g.options()
		o.Batch = 20
		ctx, cancel := context.WithCancel(t.Context())
		rounds, last := 0, 0
		o.Bury = func(_ context.Context, dead []driver.Dead) error {
			for _, d := range dead {
				if d.Key[1] >= '8' { // the shard, of which the first eight are read at once
					last++
				}
			}
			r.mu.Lock()
			for _, s := range r.shards[:8] {
				s.keys = append(s.keys, numberedKeys(s.id, 30)...)
			}
			r.mu.Unlock()
			if rounds++; last == 60 || rounds == 100 {
				cancel()
			}
			return nil
		}
		if err := r.flowing(t, o).Run(ctx); !errors.Is(err, context.Canceled) || last != 60 {
			t.Errorf("after %d rounds %d of the last two shards' 60 records are read: %v", rounds, last, err)
		}
	})
}
