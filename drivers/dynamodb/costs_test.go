package dynamodb

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestCosts measures what each call costs by the size of the item, beside what a program would write
// by hand, and wants README.md to say so. With -v it prints the table. A refused write, which DynamoDB bills and
// does not report, counts as one.
func TestCosts(t *testing.T) {
	sizes := []int{1, 10, 50, 300}
	type row struct {
		name  string
		cells []string
	}
	var rows []row
	for at, kb := range sizes {
		tbl := open[session](t, nil)
		ctx := t.Context()
		clock := handsAt(base)
		process := func() *slidingttl.Store[session] {
			return openStore(t, tbl.Driver, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, slidingttl.Options[session]{Now: clock.Now})
		}
		s := process()
		v := session{User: strings.Repeat("x", kb<<10-100)} // names, key and life take the rest
		item, err := tbl.encode(v)
		if err != nil {
			t.Fatal(err)
		}
		var before Stats
		n := 0
		add := func(name string, read, write float64) {
			cell := fmt.Sprintf("%v RCU", read)
			switch {
			case read == 0:
				cell = fmt.Sprintf("%v WCU", write)
			case write > 0:
				cell += fmt.Sprintf(" + %v WCU", write)
			}
			if at == 0 {
				rows = append(rows, row{name: name})
			}
			rows[n].cells = append(rows[n].cells, cell)
			n++
		}
		measure := func(name string, call func() error) {
			t.Helper()
			if err := call(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			is := tbl.Stats()
			add(name, is.ReadUnits-before.ReadUnits, is.WriteUnits-before.WriteUnits+is.TouchUnits-before.TouchUnits+float64(is.Refused-before.Refused)*float64(kb))
			before = is
		}
		byHand := func(name string, calls ...func(context.Context) (*types.ConsumedCapacity, error)) {
			t.Helper()
			var sums [2]float64
			for i, call := range calls {
				used, err := call(ctx)
				if err != nil {
					t.Fatalf("%s by hand: %v", name, err)
				}
				kind := 1
				if i == 0 && strings.Contains(name, "GetItem") {
					kind = 0
				}
				sums[kind] += *used.CapacityUnits
			}
			add("by hand: "+name, sums[0], sums[1])
		}
		handKey, total := attrs{"pk": text("hand")}, types.ReturnConsumedCapacityTotal
		get := func(ctx context.Context) (*types.ConsumedCapacity, error) {
			out, err := tbl.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &tbl.Driver.table, Key: handKey, ReturnConsumedCapacity: total})
			return out.ConsumedCapacity, err
		}
		put := func(ctx context.Context) (*types.ConsumedCapacity, error) {
			all := attrs{"pk": text("hand"), "ttl": seconds(base), "created_at": RFC3339.written(base), versionName: number("9007199254740992")}
			for name, av := range item {
				all[name] = av
			}
			out, err := tbl.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: all, ReturnConsumedCapacity: total})
			return out.ConsumedCapacity, err
		}
		update := func(expression string, values attrs) func(context.Context) (*types.ConsumedCapacity, error) {
			return func(ctx context.Context) (*types.ConsumedCapacity, error) {
				out, err := tbl.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
					TableName: &tbl.Driver.table, Key: handKey, ReturnConsumedCapacity: total, UpdateExpression: aws.String(expression),
					ExpressionAttributeNames: map[string]string{"#ttl": "ttl", "#user": "user"}, ExpressionAttributeValues: values,
				})
				return out.ConsumedCapacity, err
			}
		}
		touch := func(ctx context.Context) (*types.ConsumedCapacity, error) {
			out, err := tbl.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: &tbl.Driver.table, Key: handKey, ReturnConsumedCapacity: total, UpdateExpression: aws.String("SET #ttl = :ttl"),
				ExpressionAttributeNames: map[string]string{"#ttl": "ttl"}, ExpressionAttributeValues: attrs{":ttl": seconds(base)},
			})
			return out.ConsumedCapacity, err
		}
		keep := update("SET #ttl = :ttl, created_at = if_not_exists(created_at, :c), #user = :v", attrs{":ttl": seconds(base), ":c": RFC3339.written(base), ":v": text(v.User)})

		measure("`Insert`", func() error { return s.Insert(ctx, "inserted", v) })
		byHand("`PutItem`", put)
		measure("`Upsert` of a new key", func() error { return s.Upsert(ctx, "k", v) })
		measure("`Upsert` of a live key that this process has seen", func() error { return s.Upsert(ctx, "k", v) })
		measure("`Upsert` of another live key", func() error { return process().Upsert(ctx, "k", v) })
		byHand("`UpdateItem` that keeps `created_at`", keep)
		get1 := func() error { _, err := s.Get(ctx, "k"); return err }
		measure("`Get`, no touch due", get1)
		byHand("`GetItem`", get)
		clock.forward(time.Minute)
		measure("`Get`, touch due", get1)
		byHand("`GetItem`, then `UpdateItem`", get, touch)
		measure("`Update`", func() error {
			_, err := process().Update(ctx, "k", func(v session) (session, error) { return v, nil })
			return err
		})
		measure("`GetMulti`, a key", func() error { _, err := s.GetMulti(ctx, []string{"k"}); return err })
		measure("`Delete`", func() error { return s.Delete(ctx, "k") })
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		line := fmt.Sprintf("| %s | %s |", r.name, strings.Join(r.cells, " | "))
		t.Log(line)
		if !strings.Contains(string(readme), line+"\n") {
			t.Errorf("README.md does not have the row %s", line)
		}
	}
}
