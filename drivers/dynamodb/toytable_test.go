//go:build !race

package dynamodb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A toy table holds one item, and evaluates the expressions that the driver sends, as DynamoDB does.
// TestContract sends the same ones to DynamoDB Local.

// access is one read or write of one item, as a driver asks for it.
type access struct {
	life   bool // in the life table
	strong bool
	write  func(item attrs) (after attrs, ok bool) // nil: a read
	named  bool                                    // a write that the SDK sends again
	late   int                                     // the tick from which on the driver does not wait for it; 0: none
}

// result is what an access has returned.
type result struct {
	item    int  // the item before; index in items
	ok      bool // the condition held
	lost    bool // no answer came
	refused bool // the table did not take the write
	unsure  bool // an attempt before this one was not answered
	now     int8 // the process's clock afterwards
}

var errLostAnswer = errors.New("no answer came")

// toyClient hands the driver's accesses to do.
type toyClient struct {
	api
	do    func(access) result
	items *interned

	lifeFirst bool
	late      func(context.Context) int
	skip      func(update string, values attrs) bool // which updates succeed without an effect; nil: none
}

// interned numbers items, so that states compare. Item 0 is none.
type interned struct {
	ids   map[string]int
	items []attrs
}

func newInterned() *interned {
	return &interned{ids: map[string]int{"{}": 0}, items: []attrs{nil}}
}

func (in *interned) id(item attrs) int {
	tagged := make(map[string]any, len(item))
	for name, av := range item {
		tagged[name] = tag(av, func() {})
	}
	text, err := json.Marshal(tagged)
	if err != nil {
		panic(err)
	}
	id, ok := in.ids[string(text)]
	if !ok {
		id = len(in.items)
		in.ids[string(text)] = id
		in.items = append(in.items, maps.Clone(item))
	}
	return id
}

func (c *toyClient) read(table string, strong *bool) attrs {
	r := c.do(access{life: table == toyLives, strong: strong != nil && *strong})
	return maps.Clone(c.items.items[r.item])
}

func (c *toyClient) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: c.read(*in.TableName, in.ConsistentRead)}, nil
}

// BatchGetItem reads the items one after the other, in the order that the schedule chooses.
func (c *toyClient) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]map[string]types.AttributeValue{}}
	tables := slices.Sorted(maps.Keys(in.RequestItems))
	if c.lifeFirst {
		slices.Reverse(tables)
	}
	for _, table := range tables {
		if item := c.read(table, in.RequestItems[table].ConsistentRead); len(item) > 0 {
			out.Responses[table] = []map[string]types.AttributeValue{item}
		}
	}
	return out, nil
}

// write makes one conditional write.
func (c *toyClient) write(ctx context.Context, table string, condition *string, names map[string]string, values attrs, set func(attrs) attrs, opts []func(*dynamodb.Options)) (was attrs, err error) {
	for name, v := range values { // DynamoDB refuses it
		if v == nil {
			panic("no value for " + name)
		}
	}
	holds := func(attrs) bool { return true }
	if condition != nil {
		holds = conditionOf(*condition, names, values)
	}
	o := dynamodb.Options{Retryer: retry.NewStandard()}
	for _, opt := range opts {
		opt(&o)
	}
	attempts := &attempts{}
	if retryer, ok := o.Retryer.(careful); ok {
		attempts = retryer.attempts
	}
	r := c.do(access{life: table == toyLives, named: attempts.Named, late: c.late(ctx), write: func(item attrs) (attrs, bool) {
		if !holds(item) {
			return item, false
		}
		return set(item), true
	}})
	attempts.Sent()
	if !r.lost {
		attempts.Answered()
	}
	if r.unsure {
		attempts.Sent()
	}
	was = maps.Clone(c.items.items[r.item])
	switch {
	case r.lost:
		return nil, errLostAnswer
	case r.refused:
		return nil, &types.ProvisionedThroughputExceededException{}
	case !r.ok:
		return nil, &types.ConditionalCheckFailedException{Item: was}
	}
	return was, nil
}

func (c *toyClient) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	item := maps.Clone(in.Item)
	_, err := c.write(ctx, *in.TableName, in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, func(attrs) attrs { return item }, opts)
	if err != nil {
		return nil, err
	}
	return &dynamodb.PutItemOutput{}, nil
}

func (c *toyClient) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	set := updateWith(*in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.Key)
	if c.skip != nil && c.skip(*in.UpdateExpression, in.ExpressionAttributeValues) {
		set = func(item attrs) attrs { return item }
	}
	was, err := c.write(ctx, *in.TableName, in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, set, opts)
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemOutput{Attributes: was}, nil
}

func (c *toyClient) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	_, err := c.write(ctx, *in.TableName, in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, func(attrs) attrs { return nil }, opts)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DeleteItemOutput{}, nil
}

// parser parses expressions.
type parser struct {
	tokens []string
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) expect(token string) {
	if t := p.next(); t != token {
		panic(fmt.Sprintf("%q in place of %q", t, token))
	}
}

var (
	tokens sync.Map // by expression
	token  = regexp.MustCompile(`[(),]|<=|>=|[<>=]|[^\s(),<>=]+`)
)

func tokensOf(expression string) []string {
	if known, ok := tokens.Load(expression); ok {
		return known.([]string)
	}
	words := token.FindAllString(expression, -1)
	tokens.Store(expression, words)
	return words
}

type predicate = func(item attrs) bool
type operand = func(item attrs) types.AttributeValue

// environment is what placeholders stand for.
type environment struct {
	names  map[string]string
	values attrs
}

func conditionOf(expression string, names map[string]string, values attrs) predicate {
	p := &parser{tokens: tokensOf(expression)}
	holds := p.or(environment{names, values})
	if p.peek() != "" {
		panic("left of the condition: " + strings.Join(p.tokens, " "))
	}
	return holds
}

func (p *parser) or(e environment) predicate {
	left := p.and(e)
	for p.peek() == "OR" {
		p.next()
		a, b := left, p.and(e)
		left = func(item attrs) bool { return a(item) || b(item) }
	}
	return left
}

func (p *parser) and(e environment) predicate {
	left := p.not(e)
	for p.peek() == "AND" {
		p.next()
		a, b := left, p.not(e)
		left = func(item attrs) bool { return a(item) && b(item) }
	}
	return left
}

func (p *parser) not(e environment) predicate {
	switch p.peek() {
	case "NOT":
		p.next()
		of := p.not(e)
		return func(item attrs) bool { return !of(item) }
	case "(":
		p.next()
		of := p.or(e)
		p.expect(")")
		return of
	case "attribute_exists", "attribute_not_exists":
		want := p.next() == "attribute_exists"
		p.expect("(")
		of := p.operand(e)
		p.expect(")")
		return func(item attrs) bool { return of(item) != nil == want }
	}
	left := p.operand(e)
	op := p.next()
	if op == "IN" {
		p.expect("(")
		var any []operand
		for {
			any = append(any, p.operand(e))
			if p.peek() != "," {
				break
			}
			p.next()
		}
		p.expect(")")
		return func(item attrs) bool {
			return slices.ContainsFunc(any, func(o operand) bool { return compared(left(item), "=", o(item)) })
		}
	}
	right := p.operand(e)
	return func(item attrs) bool { return compared(left(item), op, right(item)) }
}

func (p *parser) operand(e environment) operand {
	token := p.next()
	if v, ok := e.values[token]; ok {
		return func(attrs) types.AttributeValue { return v }
	}
	var path []string
	for name := range strings.SplitSeq(token, ".") {
		real, ok := e.names[name]
		if !ok {
			panic(fmt.Sprintf("no name for %q", token))
		}
		path = append(path, real)
	}
	return func(item attrs) types.AttributeValue {
		for _, name := range path[:len(path)-1] {
			m, ok := item[name].(*types.AttributeValueMemberM)
			if !ok {
				return nil
			}
			item = m.Value
		}
		return item[path[len(path)-1]]
	}
}

func compared(a types.AttributeValue, op string, b types.AttributeValue) bool {
	if a == nil || b == nil {
		return false
	}
	x, isNumber := a.(*types.AttributeValueMemberN)
	y, also := b.(*types.AttributeValueMemberN)
	if !isNumber || !also {
		one, _ := json.Marshal(tag(a, func() {}))
		other, _ := json.Marshal(tag(b, func() {}))
		return op == "=" && string(one) == string(other)
	}
	i, _ := new(big.Rat).SetString(x.Value)
	j, _ := new(big.Rat).SetString(y.Value)
	c := i.Cmp(j)
	switch op {
	case "=":
		return c == 0
	case "<=":
		return c <= 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	case ">":
		return c > 0
	}
	panic("operator " + op)
}

// updateWith returns the effect of an update expression on an item, which may be absent.
func updateWith(expression string, names map[string]string, values, key attrs) func(attrs) attrs {
	e := environment{names, values}
	return func(before attrs) attrs {
		p := &parser{tokens: tokensOf(expression)}
		after := maps.Clone(before)
		if after == nil {
			after = maps.Clone(key)
		}
		for p.peek() != "" {
			clause := p.next()
			for {
				path := p.next()
				var v types.AttributeValue
				if clause == "SET" {
					p.expect("=")
					if p.peek() == "if_not_exists" {
						p.next()
						p.expect("(")
						is := p.operand(e)
						p.expect(",")
						v = cmp.Or(is(before), p.operand(e)(before))
						p.expect(")")
					} else {
						v = p.operand(e)(before)
					}
				}
				assign(after, strings.Split(path, "."), names, v)
				if p.peek() != "," {
					break
				}
				p.next()
			}
		}
		return after
	}
}

func assign(item attrs, path []string, names map[string]string, v types.AttributeValue) {
	name := names[path[0]]
	if len(path) > 1 {
		m := item[name].(*types.AttributeValueMemberM)
		inner := maps.Clone(m.Value)
		assign(inner, path[1:], names, v)
		item[name] = &types.AttributeValueMemberM{Value: inner}
	} else if v == nil {
		delete(item, name)
	} else {
		item[name] = v
	}
}
