package dynamodb

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Filter is a condition for a FilterExpression, with its names and values. Their placeholders have
// a prefix of their own, so that they can be merged with a query's.
type Filter struct {
	Expression string
	Names      map[string]string
	Values     map[string]types.AttributeValue
}

// Live is a filter that leaves dead items out of the application's own Query or Scan. It
// leaves out items that have expired at now and are not deleted yet. The table, or an index
// that projects Options.Expiry and RetainedExpiry, can be queried. If another program wrote
// an item, the item may pass the filter though it is past its cap, or has an expiry in a
// form that DynamoDB ignores: ask slidingttl's Store.Alive. Like any filter it saves no
// read capacity.
//
// A filter cannot see Options.LifeTable. An item whose life may be there passes until DynamoDB may
// delete it: read such keys by the store's GetMulti to know which are alive.
func (d *Driver[T]) Live(now driver.Instant) Filter {
	names, apart := map[string]string{
		"#slidingttl_e": d.opts.Expiry, "#slidingttl_x": d.opts.RetainedExpiry,
		"#slidingttl_at": retainedAt, "#slidingttl_ttl": retainedTTL,
	}, ""
	if d.opts.LifeTable != "" {
		names["#slidingttl_g"] = retainedGeneration
		apart = " AND attribute_not_exists(#slidingttl_x.#slidingttl_g)"
	}
	return Filter{
		// An item without an expiry, or with a String, passes: a comparison holds for Numbers alone.
		Expression: "NOT (#slidingttl_e <= :slidingttl_now OR #slidingttl_e > :slidingttl_now AND #slidingttl_x.#slidingttl_ttl = #slidingttl_e AND #slidingttl_x.#slidingttl_at <= :slidingttl_now" + apart + ")",
		Names:      names,
		Values:     map[string]types.AttributeValue{":slidingttl_now": seconds(now)},
	}
}
