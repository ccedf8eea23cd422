package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// store is a store of whatever values.
type store struct {
	driver.Scanner
	driver.RawReader
	adopt func(context.Context, slidingttl.Policy, *upkeep.AdoptOptions) (*upkeep.AdoptReport, error)
	reap  func(context.Context, slidingttl.Policy, *upkeep.ReapOptions) (*upkeep.ReapReport, error)
	close func()
}

// storeOf is the store behind d.
func storeOf[T any](d interface {
	upkeep.Store[T]
	driver.RawReader
}, close func()) *store {
	return &store{
		Scanner:   d,
		RawReader: d,
		adopt: func(ctx context.Context, p slidingttl.Policy, o *upkeep.AdoptOptions) (*upkeep.AdoptReport, error) {
			return upkeep.Adopt[T](ctx, d, p, o)
		},
		reap: func(ctx context.Context, p slidingttl.Policy, o *upkeep.ReapOptions) (*upkeep.ReapReport, error) {
			return upkeep.Reap[T](ctx, d, p, o)
		},
		close: close,
	}
}

// layout is the names that a driver was given, of which each store has its own.
type layout struct {
	CreatedAt string `json:"created_at"` // DynamoDB's attribute; the path on Couchbase
	CreatedIn string `json:"created_in"` // Couchbase: "xattr" or "body"
	Expiry    string `json:"expiry"`     // DynamoDB, as all that follow
	Version   string `json:"version"`
	Format    string `json:"created_at_format"` // "rfc3339" or "unix_milli"

	PartitionKey keyLayout `json:"partition_key"`
	SortKey      keyLayout `json:"sort_key"`
}

type keyLayout struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Prefix string  `json:"prefix"`
	Fixed  *string `json:"fixed"`
}

// target is the flags that name a store.
type target struct{ layout string }

func (t *target) flags(c *cobra.Command) {
	c.Flags().StringVar(&t.layout, "layout", "", "JSON `file` with the names that the driver was given")
	_ = c.MarkFlagFilename("layout", "json")
}

// open opens the store at uri.
func (t *target) open(ctx context.Context, uri string) (*store, error) {
	var l layout
	if t.layout != "" {
		content, err := os.ReadFile(t.layout)
		if err != nil {
			return nil, fmt.Errorf("%w: --layout: %w", errUsage, err)
		}
		d := json.NewDecoder(bytes.NewReader(content))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("%w: --layout %s: %w", errUsage, t.layout, err)
		}
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%w: the store must be a URI such as dynamodb://table or couchbase://host/bucket/scope/collection", errUsage)
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: a store's URI must have no user or password: they would be seen by all; see slidingttl --help", errUsage)
	}
	switch u.Scheme {
	case "couchbase", "couchbases":
		return openCouchbase(ctx, u, l)
	case "dynamodb":
		return openDynamoDB(ctx, u, l)
	}
	return nil, fmt.Errorf("%w: no store has the scheme %q: use couchbase, couchbases or dynamodb", errUsage, u.Scheme)
}
