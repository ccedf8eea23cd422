package dynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// keptFor is how long DynamoDB keeps records, without the minute until those that are listed are read.
	keptFor = 24*time.Hour - time.Minute

	// formerFor is how long a former stream that fails holds up the latest, which then has all of its records still.
	formerFor = 23 * time.Hour

	// formerTries in a row fail before it is left, so that one error of the network leaves none.
	formerTries = 3
)

// discover lists the stream's shards, if it is due.
func (s *Stream) discover(ctx context.Context) error {
	if !s.asked.IsZero() && time.Since(s.asked) < discoverEvery {
		return nil
	}
	began := time.Now()
	found := make(map[string]streams.Shard)
	var from *string
	for {
		out, err := s.client.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &s.place.Stream, ExclusiveStartShardId: from})
		var none *streams.ResourceNotFoundException
		if errors.As(err, &none) && s.next == "" {
			return &permanent{&driver.InvalidError{Field: "stream", Value: s.place.Stream, Rule: "must be there", Err: err}}
		}
		if err != nil {
			return err
		}
		d := out.StreamDescription
		if v := d.StreamViewType; v != streams.StreamViewTypeNewAndOldImages && v != streams.StreamViewTypeOldImage {
			return &permanent{&driver.InvalidError{Field: "stream", Value: "with the view " + string(v), Rule: "must have the view NEW_AND_OLD_IMAGES, or OLD_IMAGE"}}
		}
		s.closed = d.StreamStatus == streams.StreamStatusDisabled
		for _, shard := range d.Shards {
			found[*shard.ShardId] = shard
		}
		if from = d.LastEvaluatedShardId; from == nil {
			break
		}
	}
	s.found, s.asked, s.listed = found, time.Now(), began
	s.missed(began)
	// Drop the positions of trimmed shards that were read to their end.
	for id, at := range s.place.Shards {
		if _, listed := found[id]; !listed && at.Done {
			delete(s.place.Shards, id)
		}
	}
	return nil
}

// missed tells of the shards to be read that may have lost records since they were last read to their end. DynamoDB
// tells of those of which a record was read, and of those that are no longer listed. One that waits for its parent has
// lost no more than that.
func (s *Stream) missed(now time.Time) {
	for _, id := range s.turn() {
		at := s.place.Shards[id]
		shard, listed := s.found[id]
		if at.Read == 0 && at.After == "" { // it is new, and begins where its parent ends
			at.Read = s.place.Read
			if p := shard.ParentShardId; p != nil {
				at.Read = cmp.Or(s.place.Shards[*p].Read, at.Read)
			}
		}
		if last := time.UnixMilli(at.Read); listed && at.After == "" && now.Sub(last) > keptFor {
			s.tell(&GapError{Shard: id, Err: fmt.Errorf("it was last read to its end at %s", last.UTC().Format(time.RFC3339))})
			at.Read = now.UnixMilli()
		}
		at.Read = min(at.Read, now.UnixMilli()) // another clock's may be later
		s.place.Shards[id] = at
	}
	s.place.Read = now.UnixMilli()
}

// turn returns the shards to read: not done, with a parent that is done or trimmed. It includes
// shards that are no longer listed: reading one reports that it was trimmed.
func (s *Stream) turn() []string {
	var ids []string
	for id := range s.place.Shards {
		if _, listed := s.found[id]; !listed && !s.place.Shards[id].Done {
			ids = append(ids, id)
		}
	}
	for id, shard := range s.found {
		if s.place.Shards[id].Done {
			continue
		}
		if p := shard.ParentShardId; p != nil {
			_, listed := s.found[*p]
			at, known := s.place.Shards[*p]
			if (listed || known) && !at.Done {
				continue
			}
		}
		ids = append(ids, id)
	}
	sort.Strings(ids) // shard ids begin with their time
	first := sort.SearchStrings(ids, s.first)
	return slices.Concat(ids[first:], ids[:first])
}

// waiting reports whether a child of the shard is to be read after it.
func (s *Stream) waiting(parent string) bool {
	for id, shard := range s.found {
		if p := shard.ParentShardId; p != nil && *p == parent && !s.place.Shards[id].Done {
			return true
		}
	}
	return false
}

// iteration is how far a shard was read.
type iteration struct {
	iterator string // of the next page; empty: none
	empty    int    // pages in a row; it stays at emptyPages
}

// reading is a shard's records of one round.
type reading struct {
	shard string
	at    position // after it
	first bool     // it begins in any case, so that no shard waits for ever
	began bool     // else the round had enough before
	iteration
	dead    []driver.Dead
	gaps    []*GapError
	records int
	latest  uint64 // milliseconds
}

// held counts a round's stream records, and bytes of dead values.
type held struct{ records, bytes atomic.Int64 }

func (h *held) full(o *StreamOptions, bytes int64) bool {
	return h.records.Load() >= int64(o.Batch) || h.bytes.Load() >= bytes
}

// read reads pages of a shard until there is nothing new, or the round has enough.
func (s *Stream) read(ctx context.Context, r *reading, held *held) error {
	for trims := 0; r.first && !r.began || !held.full(&s.opts, s.bytes); {
		r.began = true
		if r.iterator == "" {
			if done, err := s.iterator(ctx, r); err != nil || done {
				return err
			}
		}
		asked := time.Now()
		out, err := s.client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: &r.iterator})
		var expired *streams.ExpiredIteratorException
		var trimmed *streams.TrimmedDataAccessException
		switch {
		case errors.As(err, &expired): // after 15 minutes
			r.iterator = ""
			continue
		case errors.As(err, &trimmed) && trims < 2: // the next iterator's records may be trimmed too by then
			trims++
			r.trimmed(err)
			continue
		case err != nil:
			return fmt.Errorf("shard %s: %w", r.shard, err)
		}
		changes := make([]Change, len(out.Records))
		for i := range out.Records {
			changes[i] = changeOf(&out.Records[i])
		}
		lives, err := s.lives(ctx, changes)
		if err != nil {
			return fmt.Errorf("shard %s: %w", r.shard, err)
		}
		for i := range out.Records {
			held.bytes.Add(s.take(r, &out.Records[i], changes[i], lives))
		}
		held.records.Add(int64(len(out.Records)))
		if out.NextShardIterator == nil {
			r.at.Done, r.iterator = true, ""
			return nil
		}
		r.iterator = *out.NextShardIterator
		if len(out.Records) > 0 {
			if r.empty < emptyPages {
				r.empty = 0
			}
			continue
		}
		if r.empty = min(r.empty+1, emptyPages); r.empty == emptyPages && !s.complete(r.shard) {
			r.at.Read = asked.UnixMilli()
			return nil
		}
	}
	return nil
}

// emptyPages in a row, since the iterator was made, count as the end of an open shard; after that a single
// one does. "It might take multiple calls to get to a portion of the shard that contains stream records",
// and an answer does not say how far behind it is. Source: GetRecords, Amazon DynamoDB API reference.
const emptyPages = 5

// complete reports whether a shard gets no more records. Empty pages also come before its end.
func (s *Stream) complete(shard string) bool {
	of := s.found[shard].SequenceNumberRange
	return of != nil && of.EndingSequenceNumber != nil
}

// take handles one stream record, and returns the size of the value it keeps.
func (s *Stream) take(r *reading, record *streams.Record, c Change, lives map[primaryKey]map[string]types.AttributeValue) (bytes int64) {
	if d, ok := s.dead(c, lives); ok {
		r.dead = append(r.dead, d)
		bytes = int64(len(d.Value))
	}
	r.records++
	if record.Dynamodb != nil && record.Dynamodb.SequenceNumber != nil {
		r.at.After = *record.Dynamodb.SequenceNumber
	}
	if !c.At.IsZero() {
		r.latest = max(r.latest, uint64(c.At.UnixMilli()))
	}
	return bytes
}

// trimmed continues with the oldest records of the shard, since the one before the next is there no more. Only if it was
// last read to its end more than a day ago others may be gone too.
func (r *reading) trimmed(err error) {
	if time.Since(time.UnixMilli(r.at.Read)) > keptFor {
		r.gap(err)
	}
	r.at.After, r.iterator = "", ""
}

// gap continues with the oldest records of the shard, whose next ones were trimmed.
func (r *reading) gap(err error) {
	r.gaps = append(r.gaps, &GapError{Shard: r.shard, Err: err})
	r.at.After, r.at.Read, r.iterator = "", time.Now().UnixMilli(), ""
}

// iterator gets an iterator at a shard's position. done: the shard no longer exists.
func (s *Stream) iterator(ctx context.Context, r *reading) (done bool, err error) {
	for {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &s.place.Stream, ShardId: &r.shard, ShardIteratorType: streams.ShardIteratorTypeTrimHorizon}
		if r.at.After != "" {
			in.ShardIteratorType, in.SequenceNumber = streams.ShardIteratorTypeAfterSequenceNumber, &r.at.After
		}
		out, err := s.client.GetShardIterator(ctx, in)
		var trimmed *streams.TrimmedDataAccessException
		var none *streams.ResourceNotFoundException
		switch {
		case errors.As(err, &trimmed) && r.at.After != "":
			r.trimmed(err)
			continue
		case errors.As(err, &trimmed), errors.As(err, &none):
			r.gap(err)
			r.at.Done = true
			return true, nil
		case err != nil:
			return false, fmt.Errorf("shard %s: %w", r.shard, err)
		}
		r.iterator, r.empty = *out.ShardIterator, 0
		return false, nil
	}
}
