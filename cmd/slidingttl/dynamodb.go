package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
)

// openDynamoDB opens dynamodb://table[?region=...&profile=...&consistent=true].
func openDynamoDB(ctx context.Context, u *url.URL, l layout) (*store, error) {
	opts := dynamodb.Options{
		Expiry:       l.Expiry,
		CreatedAt:    l.CreatedAt,
		Version:      l.Version,
		PartitionKey: l.PartitionKey.attribute(),
		SortKey:      l.SortKey.attribute(),
	}
	switch l.Format {
	case "", "rfc3339":
	case "unix_milli":
		opts.CreatedAtFormat = dynamodb.UnixMilli
	default:
		return nil, fmt.Errorf("%w: created_at_format is %q: must be rfc3339 or unix_milli", errUsage, l.Format)
	}
	var load []func(*config.LoadOptions) error
	for name, values := range u.Query() {
		switch value := values[0]; name {
		case "region":
			load = append(load, config.WithRegion(value))
		case "profile":
			load = append(load, config.WithSharedConfigProfile(value))
		case "consistent":
			opts.ConsistentRead = value == "true"
		default:
			return nil, fmt.Errorf("%w: a store on DynamoDB has no %q: use region, profile or consistent", errUsage, name)
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, err
	}
	d, err := dynamodb.New[map[string]any](sdk.NewFromConfig(cfg), u.Host, &opts)
	if err != nil {
		return nil, err
	}
	return storeOf[map[string]any](d, func() {}), nil
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
