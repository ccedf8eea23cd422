package dynamodb

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A life item has the last expiries of the lives before its own, for a stream that is read late.
const (
	formerName    = "slidingttl_former" // in a life item: the lives before, the last one first
	formerCreated = "created_at"        // in one of these

	// mostFormer keeps a life item within a write unit.
	mostFormer = 8
)

// succeeds returns what an update of l to the life of s sets beside, so that l's own is not forgotten.
func (l *lifeItem) succeeds(c *condition, s *stored) (set []string) {
	if l.generation == 0 || l.of(s) {
		return nil
	}
	all := &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		retainedGeneration: number(strconv.FormatUint(uint64(l.generation), 10)),
		formerCreated:      seconds(l.CreatedAt),
		retainedAt:         seconds(l.ExpiresAt),
	}}}}
	if before, ok := l.item[formerName].(*types.AttributeValueMemberL); ok {
		all.Value = append(all.Value, before.Value[:min(len(before.Value), mostFormer-1)]...)
	}
	return []string{"#b = " + c.set(":b", all)}
}

// former returns the last expiry of s if l, which is not of s, has it; zero: s was never touched. It
// reports false if l may have had it.
func (l *lifeItem) former(s *stored) (at driver.Instant, ok bool) {
	all, _ := l.item[formerName].(*types.AttributeValueMemberL)
	if all == nil {
		return 0, true
	}
	var first driver.Instant
	for _, av := range all.Value {
		m, _ := av.(*types.AttributeValueMemberM)
		if m == nil {
			return 0, false
		}
		created, err := parseExpiry(formerCreated, m.Value[formerCreated])
		at, err2 := parseExpiry(retainedAt, m.Value[retainedAt])
		if err != nil || err2 != nil {
			return 0, false
		}
		if created == s.CreatedAt && plain(m.Value[retainedGeneration]) == strconv.FormatUint(uint64(s.generation), 10) {
			return at, true
		}
		first = created
	}
	return 0, len(all.Value) < mostFormer || first < s.CreatedAt
}
