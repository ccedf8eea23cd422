package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log"
	"maps"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// shelf stores events and markers, and hands dead events to the archive.
type shelf struct {
	events interface {
		driver.Driver[Event]
		driver.Scanner
	}
	marks  driver.Driver[Event]
	recent func(ctx context.Context, now driver.Instant) ([]Recent, error) // the markers that live, in any order
	about  string
	close  func() error
}

// open returns the shelf chosen. What leaves it is buried in g; nil: a Lambda function does that.
func open(ctx context.Context, c backend.Choice, g *archive.Archiver, r rules) (*shelf, error) {
	switch c.Driver {
	case "sqlite":
		return openSQLite(ctx, g, r, nil)
	case "dynamodb":
		db, err := backend.OpenDynamoDB(ctx, c)
		if err != nil {
			return nil, err
		}
		s, err := openTable(ctx, db, "slidingttl-lifecycle", g, r)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		stop := s.close
		s.about, s.close = db.About, func() error { return errors.Join(stop(), db.Close()) }
		return s, nil
	}
	return nil, fmt.Errorf("-driver %s: must be sqlite or dynamodb", c.Driver)
}

// openSQLite keeps everything in a database of SQLite that goes with the program. A sweeper
// buries what leaves it. now is the time; nil: the system's.
func openSQLite(ctx context.Context, g *archive.Archiver, r rules, now func() time.Time) (_ *shelf, err error) {
	db, err := backend.OpenSQL(ctx, backend.Choice{Driver: "sqlite"})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	events, err := sql.New(db.DB, db.Dialect, "events", &sql.Options[Event]{Retain: r.history})
	if err != nil {
		return nil, err
	}
	// Markers have a table of their own, so that its rows are the recent events. They are
	// neither retained nor archived.
	marks, err := sql.New[Event](db.DB, db.Dialect, "marks", nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(events.EnsureTable(ctx), marks.EnsureTable(ctx)); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	o := sql.SweepOptions{Every: 100 * time.Millisecond, Now: now, OnError: func(err error) { log.Print(err) }}
	unmark, err := marks.Sweeper(&o)
	if err != nil {
		return nil, err
	}
	o.Bury = func(ctx context.Context, _ *stdsql.Tx, dead []driver.Dead) error { return g.Archive(ctx, dead) }
	leave, err := events.Sweeper(&o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sweeping sync.WaitGroup
	sweeping.Go(func() { unmark.Run(ctx) })
	sweeping.Go(func() { leave.Run(ctx) })
	return &shelf{
		events: events,
		marks:  marks,
		recent: func(ctx context.Context, now driver.Instant) (recent []Recent, err error) {
			rows, err := db.DB.QueryContext(ctx, "SELECT id, json_extract(value, '$.title') FROM marks WHERE "+marks.Live(now))
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, rows.Close()) }()
			for rows.Next() {
				var r Recent
				if err := rows.Scan(&r.ID, &r.Title); err != nil {
					return nil, err
				}
				recent = append(recent, r)
			}
			return recent, rows.Err()
		},
		about: db.About,
		close: func() error {
			stop()
			sweeping.Wait()
			return db.Close()
		},
	}, nil
}

// openTable keeps all in one table of DynamoDB, whose stream tells what leaves it:
//
//	pk             sk
//	EVENT#<id>     EVENT   an event, by its id
//	RECENT         <id>    a marker: one query lists them, in the order of time
//
// All markers are in one partition, which takes 1,000 of them a second. For more, spread
// them over several keys, such as one an hour.
//
// If g is nil, the stream is read by a Lambda function: see examples/lambda.
func openTable(ctx context.Context, db *backend.DynamoDB, table string, g *archive.Archiver, r rules) (*shelf, error) {
	events, err := dynamodb.New[Event](db.Client, table, &dynamodb.Options{
		PartitionKey: dynamodb.KeyAttribute{Name: "pk", Of: dynamodb.Prefix("EVENT#")},
		SortKey:      dynamodb.KeyAttribute{Name: "sk", Of: dynamodb.Fixed("EVENT")},
		Retain:       r.history,
		Deletes:      true, // an event that somebody deletes is archived too
	})
	if err != nil {
		return nil, err
	}
	marks, err := dynamodb.New[Event](db.Client, table, &dynamodb.Options{
		PartitionKey: dynamodb.KeyAttribute{Name: "pk", Of: dynamodb.Fixed("RECENT")},
		SortKey:      dynamodb.KeyAttribute{Name: "sk", Of: dynamodb.Prefix("")}, // the id as it is
	})
	if err != nil {
		return nil, err
	}
	if err := ensureTable(ctx, db.Client, table, events); err != nil {
		return nil, err
	}
	stop := func() error { return nil }
	if g != nil {
		if stop, err = bury(ctx, db, events, g); err != nil {
			return nil, err
		}
	}
	return &shelf{
		events: events,
		marks:  marks,
		recent: func(ctx context.Context, now driver.Instant) ([]Recent, error) {
			return query(ctx, db.Client, table, marks.Live(now))
		},
		close: stop,
	}, nil
}

// bury reads the stream and buries in g what it reports, until stop is called.
func bury(ctx context.Context, db *backend.DynamoDB, events *dynamodb.Driver[Event], g *archive.Archiver) (stop func() error, err error) {
	const place = "lifecycle"
	stream, err := events.Stream(db.Streams, dynamodb.StreamOptions{
		Bury:    g.Archive,
		Load:    func(ctx context.Context) ([]byte, error) { return g.Writer.Checkpoint(ctx, place) },
		Save:    func(ctx context.Context, at []byte) error { return g.Writer.SaveCheckpoint(ctx, place, at) },
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	var ended error
	reading.Go(func() { ended = stream.Run(ctx) })
	return func() error {
		cancel()
		if reading.Wait(); errors.Is(ended, context.Canceled) {
			return nil
		}
		return ended
	}, nil
}

// ensureTable makes the table and its stream, where they are not there.
func ensureTable(ctx context.Context, client *awsdynamodb.Client, table string, d *dynamodb.Driver[Event]) error {
	if err := d.EnsureTable(ctx); err != nil {
		return err
	}
	out, err := client.DescribeTable(ctx, &awsdynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return err
	}
	if s := out.Table.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		return nil
	}
	_, err = client.UpdateTable(ctx, &awsdynamodb.UpdateTableInput{TableName: &table, StreamSpecification: &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
	}})
	return err
}

// query lists the markers that live leaves in.
func query(ctx context.Context, client *awsdynamodb.Client, table string, live dynamodb.Filter) ([]Recent, error) {
	values := map[string]types.AttributeValue{":recent": &types.AttributeValueMemberS{Value: "RECENT"}}
	maps.Copy(values, live.Values)
	pages := awsdynamodb.NewQueryPaginator(client, &awsdynamodb.QueryInput{
		TableName:                 &table,
		KeyConditionExpression:    aws.String("pk = :recent"),
		FilterExpression:          &live.Expression,
		ExpressionAttributeNames:  live.Names,
		ExpressionAttributeValues: values,
	})
	var recent []Recent
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			var m struct {
				ID    string `dynamodbav:"sk"`
				Title string `dynamodbav:"title"`
			}
			if err := attributevalue.UnmarshalMap(item, &m); err != nil {
				return nil, err
			}
			recent = append(recent, Recent{m.ID, m.Title})
		}
	}
	return recent, nil
}
