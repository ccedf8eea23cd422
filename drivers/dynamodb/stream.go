package dynamodb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// streamsAPI has the methods of *dynamodbstreams.Client that a Stream calls.
type streamsAPI interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

var _ streamsAPI = (*dynamodbstreams.Client)(nil)

// StreamOptions configures a Stream.
type StreamOptions struct {
	// Bury is called with batches of dead records, one call at a time. When it returns nil, they
	// must be durable, because the position is saved after it. The records of a failed call, or of
	// one after which the process died, are handed over again, unchanged. Required.
	Bury func(ctx context.Context, dead []driver.Dead) error

	// Load returns the last argument of Save, nil if there was none. Both are required: for an
	// archive, its Writer's Checkpoint and SaveCheckpoint. The position contains no keys. Only one
	// Stream at a time may use it.
	Load func(ctx context.Context) ([]byte, error)
	Save func(ctx context.Context, place []byte) error

	// ARN is the stream. Empty: the table's latest, after what is left to read of the one that was read before.
	// If the stream was enabled anew more than once since, those between are not read.
	ARN string

	// Every is how long Run waits when there is nothing new. Zero: 1 s.
	Every time.Duration

	// Batch is about how many dead records one call of Bury gets. Zero: 5000. Their values are
	// limited too, to 32 MiB and 1 MB for each reader.
	Batch int

	// Readers bounds the shards that are read at once. Zero: 8.
	Readers int

	// OnError is called with errors after which Run continues: of the service, of Bury and of Save,
	// and a *GapError. Nil: they are only counted.
	OnError func(error)
}

const (
	streamEvery   = time.Second
	streamBatch   = 5000
	streamReaders = 8
	streamBytes   = 32 << 20

	// discoverEvery is how often shards are listed while no known shard has ended.
	discoverEvery = 10 * time.Second

	// saveEvery is how often the place is saved while there is nothing new.
	saveEvery = 15 * time.Minute
)

func (o StreamOptions) validate() (StreamOptions, error) {
	for _, f := range []struct {
		field, value, rule string
		wrong              bool
	}{
		{"Bury", "nil", "is required", o.Bury == nil},
		{"Load", "nil", "is required", o.Load == nil},
		{"Save", "nil", "is required", o.Save == nil},
		{"Every", o.Every.String(), "must not be negative", o.Every < 0},
		{"Batch", strconv.Itoa(o.Batch), "must not be negative", o.Batch < 0},
		{"Readers", strconv.Itoa(o.Readers), "must not be negative", o.Readers < 0},
	} {
		if f.wrong {
			return o, &driver.InvalidError{Field: "StreamOptions." + f.field, Value: f.value, Rule: f.rule}
		}
	}
	o.Every, o.Batch, o.Readers = cmp.Or(o.Every, streamEvery), cmp.Or(o.Batch, streamBatch), cmp.Or(o.Readers, streamReaders)
	return o, nil
}

// GapError says that DynamoDB has removed a shard's records that were not read yet, or may have. It
// keeps them for 24 hours. What died in them is in no archive. Reading continues with the
// oldest records that exist.
type GapError struct {
	Shard string // or the oldest one left after it, or the ARN of a former stream that is gone
	Err   error  // what DynamoDB said, or when the stream was last read to its end
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("records of shard %s were trimmed before they were read, or may have been: %v", e.Shard, e.Err)
}

// Unwrap returns Err.
func (e *GapError) Unwrap() error { return e.Err }

// StreamStats counts what a Stream has done since it was made.
type StreamStats struct {
	Records uint64    // of the stream
	Dead    uint64    // handed over
	Gaps    uint64    // shards whose records were trimmed before they were read, or may have been
	Failed  uint64    // rounds that ended with an error
	Latest  time.Time // time of the last buried stream record; zero: none
}

// Stream reads DynamoDB Streams and hands over the records of a table that died. These are
// items that the TTL service removed, or that were overwritten or deleted when they were
// dead; with Options.Deletes also those deleted alive. The stream's
// view should be NEW_AND_OLD_IMAGES; OLD_IMAGE works too, but does not show lives that an
// overwrite ended.
//
// Records of a shard are read in order, and after those of its parent shard.
type Stream struct {
	client streamsAPI
	opts   StreamOptions
	arn    func(context.Context) (string, error)
	dead   func(Change, map[primaryKey]map[string]types.AttributeValue) (driver.Dead, bool)
	lives  func(context.Context, []Change) (map[primaryKey]map[string]types.AttributeValue, error)

	place   *place
	next    string                   // the stream to read after place's, which is a former one; empty: none
	enabled time.Time                // when next was, or was found
	refused int                      // rounds in a row in which place's stream, a former one, failed
	saved   time.Time                // when place was; zero: not by this process, or it failed
	found   map[string]streams.Shard // by id
	asked   time.Time                // when shards were last listed; zero: list them now
	listed  time.Time                // when found was listed
	iterate map[string]iteration     // by shard
	closed  bool                     // the stream is disabled: no new shards
	first   string                   // the shard, or the one after it, with which the next round begins
	bytes   int64                    // limit on a round's values

	counts  struct{ records, dead, gaps, failed, latest atomic.Uint64 }
	through atomic.Int64 // all that died before this is buried, in milliseconds; zero: unknown
}

// Stream returns a Stream of d's table. opts is copied. An option that breaks its rule is a
// *driver.InvalidError, and so is a missing Options.KeyOf where that is required.
func (d *Driver[T]) Stream(client *dynamodbstreams.Client, opts StreamOptions) (*Stream, error) {
	if client == nil {
		return nil, &driver.InvalidError{Field: "client", Value: "nil", Rule: "is required"}
	}
	return d.stream(client, opts)
}

func (d *core) stream(client streamsAPI, opts StreamOptions) (*Stream, error) {
	if err := d.opts.checkKeyOf(); err != nil {
		return nil, err
	}
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	return &Stream{client: client, opts: o, arn: d.streamARN, dead: d.dead, lives: d.livesAt, iterate: make(map[string]iteration), bytes: streamBytes}, nil
}

// streamARN returns the ARN of the table's latest stream.
func (d *core) streamARN(ctx context.Context) (string, error) {
	out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	var none *types.ResourceNotFoundException
	if errors.As(err, &none) {
		return "", &permanent{failed(err)}
	}
	if err != nil {
		return "", failed(err)
	}
	if out.Table.LatestStreamArn == nil {
		return "", &permanent{&driver.InvalidError{Field: "table " + d.table, Value: "without a stream", Rule: "must have one, with the view NEW_AND_OLD_IMAGES"}}
	}
	return *out.Table.LatestStreamArn, nil
}

// Stats returns the counters. It may be called at any time.
func (s *Stream) Stats() StreamStats {
	c := &s.counts
	stats := StreamStats{Records: c.records.Load(), Dead: c.dead.Load(), Gaps: c.gaps.Load(), Failed: c.failed.Load()}
	if at := c.latest.Load(); at != 0 {
		stats.Latest = time.UnixMilli(int64(at))
	}
	return stats
}

// Through is the time by which everything that the stream reported is buried, for
// archive.Archiver. It is zero before the first round without an error.
//
// A shard that is closed is read to its end. An open one counts as read when DynamoDB has answered five empty
// pages in a row, and after that one. DynamoDB does not say how many it may answer before records that exist:
// those that come after more are older than Through, and are buried all the same.
func (s *Stream) Through() (at time.Time) {
	if through := s.through.Load(); through != 0 {
		at = time.UnixMilli(through)
	}
	return at
}

// Run reads the stream from the place that Load returns until ctx ends, and returns ctx's error. It returns nil when the
// stream is disabled and read to its end. It returns at once with an error that a retry
// cannot help: the stream or the table does not exist, or the view is wrong. It must not be
// called twice at once.
func (s *Stream) Run(ctx context.Context) error {
	s.place = nil // a Run before has left it where it was: there may be another stream by now
	for {
		news, err := s.round(ctx)
		var fatal *permanent
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &fatal):
			return fatal.error
		case err != nil:
			s.counts.failed.Add(1)
			s.report(err)
		case s.place.Ended && s.next == "":
			return nil
		case s.place.Ended:
			s.turnTo(s.next, s.enabled)
			continue
		case news:
			continue
		}
		_ = driver.Sleep(ctx, s.opts.Every) // the next round reports ctx's error
	}
}

// permanent is an error that a retry cannot help.
type permanent struct{ error }

func (s *Stream) report(err error) { hook.Tell(s.opts.OnError, err) }

func (s *Stream) tell(gap *GapError) {
	s.counts.gaps.Add(1)
	s.report(gap)
}

// round reads new records of all due shards, buries the dead, and saves the position. It reports
// whether there were new records.
func (s *Stream) round(ctx context.Context) (news bool, err error) {
	if err := s.open(ctx); err != nil {
		return false, err
	}
	if err := s.discover(ctx); err != nil {
		var none *streams.ResourceNotFoundException
		if s.next != "" && ctx.Err() == nil && (errors.As(err, &none) || s.refuses()) {
			s.leave(err)
			return true, nil
		}
		return false, err
	}
	through := s.listed.UnixMilli() // a shard that is newer is not known
	turn := s.turn()
	reads := make([]reading, len(turn))
	var held held
	errs := make([]error, len(turn)) // a failing shard does not stop the others, whose records are valid
	var g errgroup.Group
	g.SetLimit(s.opts.Readers)
	for i, shard := range turn {
		reads[i] = reading{shard: shard, at: s.place.Shards[shard], first: i < s.opts.Readers, iteration: s.iterate[shard]}
		g.Go(func() error {
			hook.Try(func() error { return s.read(ctx, &reads[i], &held) }, func(err error) {
				if errs[i] = err; err != nil {
					reads[i].iterator = "" // it may be valid only once
				}
			})
			return nil
		})
	}
	_ = g.Wait()
	failed := errors.Join(errs...)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var dead []driver.Dead
	records := 0
	latest := uint64(0)
	for _, r := range reads {
		dead = append(dead, r.dead...)
		records += r.records
		latest = max(latest, r.latest)
		if r.at.differs(s.place.Shards[r.shard]) {
			news = true
			if r.latest != 0 {
				through = min(through, int64(r.latest))
			}
		} else if held.full(&s.opts, s.bytes) {
			through = min(through, s.through.Load()) // its shard may not have been read
		}
		if r.latest == 0 && s.waiting(r.shard) {
			through = min(through, s.through.Load())
		}
	}
	var unburied error
	if len(dead) > 0 {
		unburied = s.opts.Bury(ctx, dead)
	}
	if unburied != nil { // what has moved is read again
		unburied = fmt.Errorf("StreamOptions.Bury: %w", unburied)
		reads = slices.DeleteFunc(reads, func(r reading) bool { return r.at.differs(s.place.Shards[r.shard]) })
		news, records, latest, dead = false, 0, 0, nil
	}
	next := s.place.clone()
	for _, r := range reads {
		next.Shards[r.shard] = r.at
		for _, gap := range r.gaps { // before the place is saved, which has it for told
			s.tell(gap)
		}
	}
	next.Ended = s.closed && len(turn) == 0
	var unsaved error // it is saved later: what it tells of is buried
	if news || next.Ended != s.place.Ended || s.saved.IsZero() || time.Since(s.saved) >= saveEvery {
		s.saved = time.Now()
		if unsaved = s.save(ctx, next); unsaved != nil {
			s.saved = time.Time{}
		}
	}
	s.place, s.first = next, ""
	for _, r := range reads {
		if !r.began && s.first == "" {
			s.first = r.shard
		}
		s.iterate[r.shard] = r.iteration
		if r.at.Done {
			delete(s.iterate, r.shard)
			s.asked = time.Time{} // its children exist now
		}
	}
	s.counts.records.Add(uint64(records))
	s.counts.dead.Add(uint64(len(dead)))
	s.counts.latest.Store(max(latest, s.counts.latest.Load()))
	if failed == nil && unburied == nil && s.next == "" && (unsaved == nil || !next.Ended) { // after its end there may be another stream
		s.through.Store(through)
	}
	if failed == nil || news {
		s.refused = 0
	} else if s.next != "" && s.refuses() {
		s.leave(failed)
		return true, errors.Join(unburied, unsaved)
	}
	return news, errors.Join(failed, unburied, unsaved)
}

// place is a position in a stream.
type place struct {
	Stream string              `json:"stream"` // its ARN
	Shards map[string]position `json:"shards"`
	Ended  bool                `json:"ended,omitempty"` // it was disabled, and is read to its end

	// Read is a time in milliseconds: a shard that is not in Shards, nor after one that is, came after it, or
	// what it had before is not missed. Zero: an older release wrote the place.
	Read int64 `json:"read,omitempty"`
}

// position is a position in a shard.
type position struct {
	After string `json:"after,omitempty"` // the sequence number of the last record; empty: from the oldest
	Done  bool   `json:"done,omitempty"`  // to its end

	// Read is a time in milliseconds: the shard's records from before it are read or told of as a gap, or are not
	// missed. Zero: an older release wrote it.
	Read int64 `json:"read,omitempty"`
}

// differs reports whether p is another place in its shard than was.
func (p position) differs(was position) bool { return p.After != was.After || p.Done != was.Done }

func (p *place) clone() *place {
	c := &place{Stream: p.Stream, Ended: p.Ended, Read: p.Read, Shards: make(map[string]position, len(p.Shards))}
	for id, at := range p.Shards {
		c.Shards[id] = at
	}
	return c
}

// open finds the stream and its saved position.
func (s *Stream) open(ctx context.Context) error {
	if s.place != nil {
		return nil
	}
	content, err := s.opts.Load(ctx)
	if err != nil {
		return fmt.Errorf("StreamOptions.Load: %w", err)
	}
	p := &place{}
	if content != nil {
		if err := json.Unmarshal(content, p); err != nil {
			return &permanent{&driver.InvalidError{Field: "StreamOptions.Load", Value: strconv.Itoa(len(content)) + " bytes", Rule: "must return what was saved", Err: err}}
		}
	}
	arn := s.opts.ARN
	if arn == "" {
		if arn, err = s.arn(ctx); err != nil {
			return err
		}
	}
	if p.Shards == nil {
		p.Shards = make(map[string]position)
	}
	now := time.Now()
	p.Read = cmp.Or(p.Read, now.UnixMilli())
	table, _, of := strings.Cut(p.Stream, "/stream/")
	_, label, _ := strings.Cut(arn, "/stream/")
	former := of && s.opts.ARN == "" && strings.HasPrefix(arn, table+"/stream/")
	s.turnTo(arn, now) // another stream is read from its beginning
	switch enabled, err := time.Parse("2006-01-02T15:04:05", label); {
	case p.Stream == arn:
		s.place = p
	case former && err == nil:
		s.place, s.next, s.enabled = p, arn, enabled
	case former:
		s.place, s.next, s.enabled = p, arn, now
	}
	if s.place.Ended && s.next != "" { // nothing of it is left
		s.turnTo(s.next, s.enabled)
	}
	return nil
}

// turnTo begins to read another stream. What it has from before a time is not missed.
func (s *Stream) turnTo(arn string, read time.Time) {
	s.place, s.next, s.saved = &place{Stream: arn, Shards: make(map[string]position), Read: read.UnixMilli()}, "", time.Time{}
	s.found, s.asked, s.closed, s.first, s.refused = nil, time.Time{}, false, "", 0
	clear(s.iterate)
}

// refuses counts a round in which a former stream failed, and reports whether it has held up the latest for long enough.
func (s *Stream) refuses() bool {
	s.refused++
	return s.refused >= formerTries && time.Since(s.enabled) > formerFor
}

// leave turns from a former stream, of which err tells, to the latest.
func (s *Stream) leave(err error) {
	s.tell(&GapError{Shard: s.place.Stream, Err: err})
	s.turnTo(s.next, s.enabled)
}

func (s *Stream) save(ctx context.Context, p *place) error {
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := s.opts.Save(ctx, content); err != nil {
		return fmt.Errorf("StreamOptions.Save: %w", err)
	}
	return nil
}
