package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// mark is a position in a scan: a range of ids, and the service's continuation.
type mark struct {
	From         string `json:"from,omitempty"` // the first id
	To           string `json:"to,omitempty"`   // the id after the last; empty: none
	Continuation string `json:"at,omitempty"`
}

// firsts are the characters at which ranges of ids begin, in the order of their codes.
const firsts = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Segments implements driver.Scanner, with up to 62 ranges of ids and without a request. A
// range begins with a digit or letter after the prefix of Options.ID, if that is one. Options.KeyOf
// must be set where it is required.
func (d *Driver[T]) Segments(_ context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	if err := d.opts.checkKeyOf(); err != nil {
		return nil, err
	}
	prefix, _ := prefixOf(d.opts.ID)
	n = min(n, len(firsts))
	cursors := make([]driver.Cursor, n)
	from := ""
	for i := range cursors {
		to := ""
		if i < n-1 {
			to = prefix + string(firsts[(i+1)*len(firsts)/n])
		}
		cursors[i] = driver.EncodeCursor(mark{From: from, To: to})
		from = to
	}
	return cursors, nil
}

// Scan implements driver.Scanner, with one page of a query for keys and lives over all partitions.
// Each item that it looks at is charged as a whole. Page.Cost is in request units. Items whose ids
// or partition keys do not fit Options are no records.
func (d *Driver[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	var at mark
	if err := driver.DecodeCursor(from, &at); err != nil {
		return driver.Page{}, err
	}
	if err := d.opts.checkKeyOf(); err != nil {
		return driver.Page{}, err
	}
	query, parameters := d.query(at)
	o := &azcosmos.QueryOptions{PageSizeHint: int32(min(limit, 1<<20)), QueryParameters: parameters}
	if at.Continuation != "" {
		o.ContinuationToken = &at.Continuation
	}
	res, err := read(ctx, d, nil, func(token *string) (azcosmos.QueryItemsResponse, *http.Response, error) {
		o.SessionToken = token
		res, err := d.client.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), o).NextPage(ctx)
		return res, res.RawResponse, err
	})
	if err != nil {
		return driver.Page{}, failed(ctx, err)
	}
	d.stats.charged(&d.stats.ReadUnits, res.RequestCharge)
	page := driver.Page{Cost: float64(res.RequestCharge), Records: make([]driver.Scanned, 0, len(res.Items))}
	for _, body := range res.Items {
		item := gjson.ParseBytes(body)
		var key string
		var refused error
		k, ok := d.identityOf(item)
		if ok {
			key, ok, refused = d.recordKey(k)
		}
		if !ok {
			page.Passed++
			continue
		}
		s := d.read(item)
		r := driver.Scanned{Key: key, Meta: s.Meta, Problem: errors.Join(refused, s.odd)}
		if until := s.removed.Add(-d.opts.MaxSkew); s.removed != 0 && until > s.ExpiresAt {
			r.HeldUntil = until
		}
		page.Records = append(page.Records, r)
	}
	if res.ContinuationToken != nil {
		at.Continuation = *res.ContinuationToken
		page.Next = driver.EncodeCursor(at)
	}
	return page, nil
}

// query selects the properties of keys and lives, in a range of ids.
func (d *Driver[T]) query(at mark) (string, []azcosmos.QueryParameter) {
	names := []string{"id", "_etag", "_ts", ttlName, d.opts.CreatedAt, d.opts.ExpiresAt, d.opts.Version}
	for _, p := range d.opts.PartitionKey {
		if root := strings.Split(p.Path, "/")[1]; !slices.Contains(names, root) { // of two levels
			names = append(names, root)
		}
	}
	columns := make([]string, len(names))
	for i, name := range names {
		columns[i] = fmt.Sprintf("c[%q]", name)
	}
	var where []string
	var parameters []azcosmos.QueryParameter
	if at.From != "" {
		where = append(where, "c.id >= @from")
		parameters = append(parameters, azcosmos.QueryParameter{Name: "@from", Value: at.From})
	}
	if at.To != "" {
		where = append(where, "c.id < @to")
		parameters = append(parameters, azcosmos.QueryParameter{Name: "@to", Value: at.To})
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM c"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	return query, parameters
}
