package dynamodb

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Filter is a condition for a FilterExpression, with what stands for its names and values.
// Both have a prefix of their own, to be merged with those of a query.
type Filter struct {
	Expression string
	Names      map[string]string
	Values     map[string]types.AttributeValue
}

// Live is for a Query or Scan of the application's own, of the table or an index that
// projects Options.Expiry and RetainedExpiry: it leaves out what has expired at now and was not deleted yet. What
// it leaves in may be past its cap all the same if another program wrote it, or have an
// expiry in a form that DynamoDB ignores: slidingttl's Store.Alive tells. As any filter it spares
// no read capacity.
func (d *Driver[T]) Live(now driver.Instant) Filter {
	return Filter{
		// What has no expiry, or a String, is not compared, and stays.
		Expression: "NOT (#slidingttl_e <= :slidingttl_now OR #slidingttl_x.#slidingttl_ttl = #slidingttl_e AND #slidingttl_x.#slidingttl_at <= :slidingttl_now)",
		Names: map[string]string{
			"#slidingttl_e": d.opts.Expiry, "#slidingttl_x": d.opts.RetainedExpiry,
			"#slidingttl_at": retainedAt, "#slidingttl_ttl": retainedTTL,
		},
		Values: map[string]types.AttributeValue{":slidingttl_now": seconds(now)},
	}
}
