package dynamodb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// gated passes the writes of a client through a gate.
func gated(g *drivertest.Gate, base http.RoundTripper) func(*dynamodb.Options) {
	writes := func(req *http.Request) bool {
		_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		return op == "PutItem" || op == "UpdateItem" && decides(req) || op == "DeleteItem"
	}
	return func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: g.Transport(base, writes)} }
}

// decides reports whether an UpdateItem is a touch, and not what another write does in the life table
// before it.
func decides(req *http.Request) bool {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return true
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	var in struct {
		UpdateExpression          string
		ExpressionAttributeValues map[string]struct{ N string }
	}
	if json.Unmarshal(body, &in) != nil || strings.Contains(in.UpdateExpression, "#d = :d") {
		return false
	}
	next, is := in.ExpressionAttributeValues[":v"], in.ExpressionAttributeValues[":is_v"]
	return next == is || is.N == "" || next.N == ""
}

// apart changes the Date header of DynamoDB's answers to one client, which is its only source of
// the time.
type apart struct{ off atomic.Int64 }

func (a *apart) client(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: a} }

func (a *apart) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if off := a.off.Load(); err == nil && off != 0 {
		res.Header.Set("Date", time.Now().Add(time.Duration(off)).UTC().Format(http.TimeFormat))
	}
	return res, err
}

// mostItem is the longest value that leaves room for the other attributes of an item.
const mostItem = 399 << 10

// loadHostile writes a record that no driver writes.
func loadHostile[T any](ctx context.Context, tbl *table[T], r drivertest.HostileRecord) error {
	if tbl.opts.PartitionKey.Type != "B" && !utf8.ValidString(r.Key) || r.Guarded {
		return errors.ErrUnsupported
	}
	v := drivertest.Value{Text: strings.Repeat("x", r.Size)}
	item, err := attributevalue.MarshalMap(v)
	if err != nil {
		return err
	}
	k := primaryKey{partition: r.Key}
	if of := tbl.opts.PartitionKey.Of; of != nil {
		k.partition = of(r.Key)
	}
	switch {
	case tbl.opts.SortKey.Of != nil && r.Alien:
		k.sort = "ORDER#1"
	case tbl.opts.SortKey.Of != nil:
		k.sort = tbl.opts.SortKey.Of(r.Key)
	case r.Alien:
		return errors.ErrUnsupported
	}
	tbl.setKey(item, k)
	if r.CreatedAt != 0 {
		item[tbl.opts.CreatedAt] = number(fmt.Sprint(r.CreatedAt))
	}
	item[tbl.opts.Expiry] = number(fmt.Sprint(r.ExpiresAt.Unix()))
	_, err = tbl.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: item})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationException" {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}
