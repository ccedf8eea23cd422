package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

var dynamodbKind = kind{
	schemes:     []string{"dynamodb"},
	form:        "dynamodb://table[?region=R&profile=P&consistent=true&index=I&retain=D]",
	params:      parameters{"region": text, "profile": text, "consistent": truth, "index": text, "retain": span},
	credentials: "give credentials as the AWS SDK finds them: AWS_ACCESS_KEY_ID and the rest, a profile, a role",
	keeps:       "a life table that --layout does not name, until its ttl, Streams for 24 hours, point-in-time recovery for 35 days, backups and exports, and other regions of a global table until they follow",
	open:        openDynamoDB,
}

type dynamodbLayout struct {
	CreatedAt    string    `json:"created_at"`
	Format       string    `json:"created_at_format"`
	Expiry       string    `json:"expiry"`
	Version      string    `json:"version"`
	Retained     string    `json:"retained_expiry"`
	PartitionKey keyLayout `json:"partition_key"`
	SortKey      keyLayout `json:"sort_key"`
	LifeTable    string    `json:"life_table"`
	Hold         string    `json:"hold"`
}

type keyLayout struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Prefix string  `json:"prefix"`
	Fixed  *string `json:"fixed"`
}

func openDynamoDB(ctx context.Context, a *address, l layout) (*store, error) {
	var names dynamodbLayout
	if err := l.into(&names); err != nil {
		return nil, err
	}
	opts := dynamodb.Options{
		Expiry:         names.Expiry,
		CreatedAt:      names.CreatedAt,
		Version:        names.Version,
		RetainedExpiry: names.Retained,
		PartitionKey:   names.PartitionKey.attribute(),
		SortKey:        names.SortKey.attribute(),
		LifeTable:      names.LifeTable,
	}
	var err error
	if names.Hold != "" {
		if opts.Hold, err = policy.ParseDuration(names.Hold); err != nil {
			return nil, fmt.Errorf("%w: --layout: hold: %w", errUsage, err)
		}
	}
	if opts.CreatedAtFormat, err = choice("created_at_format", names.Format, map[string]dynamodb.TimeFormat{"rfc3339": dynamodb.RFC3339, "unix_milli": dynamodb.UnixMilli}); err != nil {
		return nil, err
	}
	if a.Host == "" || a.User != nil {
		return nil, errForm
	}
	opts.Retain, opts.ScanIndex, opts.ConsistentRead = a.retain, a.own["index"], a.own["consistent"] == "true"
	opts.ScanSizes = a.sizes
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(a.own["region"]), config.WithSharedConfigProfile(a.own["profile"]))
	if err != nil {
		return nil, err
	}
	client := sdk.NewFromConfig(cfg)
	d, err := dynamodb.New[map[string]any](client, a.Host, &opts)
	if err != nil {
		return nil, err
	}
	s := &store{walked: d, close: func() {}}
	s.sessions = func() (driver.Driver[session.Record], error) {
		return dynamodb.New[session.Record](client, a.Host, &opts)
	}
	s.ids = func(ctx context.Context) ([]string, error) {
		out, err := client.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &a.Host})
		if err != nil {
			return nil, err
		}
		id := aws.ToString(out.Table.TableId)
		if id == "" && out.Table.CreationDateTime != nil { // DynamoDB Local
			id = out.Table.CreationDateTime.UTC().Format(time.RFC3339Nano)
		}
		return []string{aws.ToString(out.Table.TableArn) + " " + id}, nil
	}
	s.about = func(ctx context.Context) int64 {
		out, err := client.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &a.Host})
		if err != nil || out.Table == nil {
			return 0
		}
		return aws.ToInt64(out.Table.ItemCount) // of some hours ago
	}
	return s, nil
}

func (k keyLayout) attribute() dynamodb.KeyAttribute {
	a := dynamodb.KeyAttribute{Name: k.Name, Type: types.ScalarAttributeType(k.Type)}
	switch {
	case k.Fixed != nil:
		a.Of = dynamodb.Fixed(*k.Fixed)
	case k.Prefix != "" || k.Name != "":
		a.Of = dynamodb.Prefix(k.Prefix)
	}
	return a
}
