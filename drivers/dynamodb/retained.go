package dynamodb

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The fields of the attribute Options.RetainedExpiry.
const (
	retainedAt  = "at"  // the record's expiry
	retainedTTL = "ttl" // the item's ttl, later, for which at is valid
)

// retaining is the condition that the record's expiry is in Options.RetainedExpiry. If the ttl in
// it differs from the item's, a program has moved ttl alone, and the attribute does not count.
const retaining = "#x.#ttl = #e"

// parseRetained reads the expiry in av; zero if av does not belong to ttl, or is later: the earlier of
// the two decides, here as in conditions.
func parseRetained(name string, av, ttl types.AttributeValue) (driver.Instant, error) {
	m, ok := av.(*types.AttributeValueMemberM)
	if !ok {
		return 0, nil
	}
	beside, ok := m.Value[retainedTTL].(*types.AttributeValueMemberN)
	if is, number := ttl.(*types.AttributeValueMemberN); !ok || !number || beside.Value != is.Value {
		return 0, nil
	}
	at, ok := m.Value[retainedAt].(*types.AttributeValueMemberN)
	if !ok {
		return 0, odd(name+"."+retainedAt, m.Value[retainedAt], "must be a Number of seconds since the Unix epoch")
	}
	expiry, err := parseExpiry(name, at)
	if held, odd := parseExpiry(name, ttl); odd != nil || expiry > held {
		return 0, err
	}
	return expiry, err
}

// expiry returns Options.Expiry and Options.RetainedExpiry for a record that expires at that
// instant; nil: not written.
func (o *Options) expiry(at driver.Instant) (ttl, beside types.AttributeValue) {
	at = at.RoundUp(time.Second)
	held := min(at.Add(o.Retain).RoundUp(time.Second), latest)
	if held == at {
		return seconds(at), nil
	}
	return seconds(held), retained(at, held)
}

// retained returns the Map for an expiry at and a later ttl.
func retained(at, ttl driver.Instant) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		retainedAt: seconds(at), retainedTTL: seconds(ttl),
	}}
}

// move returns what an update sets and removes for the expiry at, zero for none. It adds the values
// to c.
func (o *Options) move(c *condition, at driver.Instant) (set, remove []string) {
	if at == 0 {
		return nil, []string{"#e", "#x"}
	}
	ttl, beside := o.expiry(at)
	set = []string{"#e = " + c.set(":e", ttl)}
	if beside == nil {
		return set, []string{"#x"}
	}
	return append(set, "#x = "+c.set(":x", beside)), nil
}

// updateOf is an update expression.
func updateOf(set, remove []string) string {
	var clauses []string
	if len(set) > 0 {
		clauses = append(clauses, "SET "+strings.Join(set, ", "))
	}
	if len(remove) > 0 {
		clauses = append(clauses, "REMOVE "+strings.Join(remove, ", "))
	}
	return strings.Join(clauses, " ")
}
