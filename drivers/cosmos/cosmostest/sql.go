package cosmostest

import (
	"fmt"
	"strconv"
	"strings"
)

// query is a parsed query over one container:
//
//	SELECT [TOP n] * | VALUE expr | expr [AS name], ... FROM c [WHERE expr]
//
// with the operators OR, AND, NOT, =, !=, <>, <, <=, >, >=, IN, literals, parameters,
// properties by dot or bracket, and the functions of [functions].
type query struct {
	top   int // -1: all
	all   bool
	value bool
	list  []column
	alias string
	where expr // nil: all
}

type column struct {
	name string
	expr expr
}

// expr is an expression: its value for an item, or undefined.
type expr func(e env) any

// env is the environment in which an expression is evaluated.
type env struct {
	doc        map[string]any
	parameters map[string]any
}

// undefined is the value of a missing property, and of an operation without a result.
type undefined struct{}

// parser reads a query token by token.
type parser struct {
	text  string
	at    int
	token string // the next one; "" at the end
	kind  kind
	alias string
	name  string // of the last property read
	err   error
}

// parse reads a query.
func parse(text string) (*query, error) {
	p := &parser{text: text}
	p.next()
	q := p.query()
	if p.err == nil && p.kind != atEnd {
		p.fail("its end")
	}
	return q, p.err
}

func (p *parser) fail(want string) {
	if p.err == nil {
		p.err = fmt.Errorf("at character %d: must have %s", p.at, want)
	}
	p.kind, p.token, p.at = atEnd, "", len(p.text)
}

// word consumes a keyword if it is next.
func (p *parser) word(keyword string) bool {
	if p.kind == atWord && strings.EqualFold(p.token, keyword) {
		p.next()
		return true
	}
	return false
}

// sign consumes a sign if it is next.
func (p *parser) sign(sign string) bool {
	if p.kind == atSign && p.token == sign {
		p.next()
		return true
	}
	return false
}

func (p *parser) need(taken bool, what string) {
	if !taken {
		p.fail(what)
	}
}

func (p *parser) query() *query {
	q := &query{top: -1}
	p.need(p.word("SELECT"), "SELECT")
	if p.word("TOP") {
		n, err := strconv.Atoi(p.token)
		p.need(err == nil, "a number")
		q.top = n
		p.next()
	}
	q.alias = alias(p.text)
	p.alias = q.alias
	switch {
	case p.sign("*"):
		q.all = true
	case p.word("VALUE"):
		q.value = true
		q.list = []column{{expr: p.or()}}
	default:
		for more := true; more; more = p.sign(",") {
			p.name = ""
			e := p.or()
			name := p.name
			if p.word("AS") {
				name = p.token
				p.next()
			}
			q.list = append(q.list, column{name, e})
		}
	}
	p.need(p.word("FROM"), "FROM")
	p.need(p.kind == atWord, "a name after FROM")
	p.next()
	if p.word("AS") || p.kind == atWord && !strings.EqualFold(p.token, "WHERE") {
		p.next()
	}
	if p.word("WHERE") {
		q.where = p.or()
	}
	return q
}

// alias is the query's name for an item.
func alias(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if !strings.EqualFold(word, "FROM") || i+1 == len(words) {
			continue
		}
		rest := words[i+1:]
		if len(rest) > 2 && strings.EqualFold(rest[1], "AS") {
			return rest[2]
		}
		if len(rest) > 1 && !strings.EqualFold(rest[1], "WHERE") {
			return rest[1]
		}
		return rest[0]
	}
	return ""
}

func (p *parser) or() expr {
	left := p.and()
	for p.word("OR") {
		a, b := left, p.and()
		left = func(e env) any { return either(a(e), b(e), true) }
	}
	return left
}

func (p *parser) and() expr {
	left := p.not()
	for p.word("AND") {
		a, b := left, p.not()
		left = func(e env) any { return either(a(e), b(e), false) }
	}
	return left
}

// either is a OR b if decides is true, a AND b if it is false.
func either(a, b any, decides bool) any {
	x, okX := a.(bool)
	y, okY := b.(bool)
	switch {
	case okX && x == decides, okY && y == decides:
		return decides
	case okX && okY:
		return !decides
	}
	return undefined{}
}

func (p *parser) not() expr {
	if p.word("NOT") {
		a := p.not()
		return func(e env) any {
			if x, ok := a(e).(bool); ok {
				return !x
			}
			return undefined{}
		}
	}
	return p.comparison()
}

func (p *parser) comparison() expr {
	a := p.operand()
	for _, sign := range []string{"=", "!=", "<>", "<=", ">=", "<", ">"} {
		if p.sign(sign) {
			b := p.operand()
			return func(e env) any { return compare(sign, a(e), b(e)) }
		}
	}
	if !p.word("IN") {
		return a
	}
	p.need(p.sign("("), "(")
	list := p.list()
	return func(e env) any {
		for _, b := range list {
			if compare("=", a(e), b(e)) == true {
				return true
			}
		}
		return false
	}
}

// list reads expressions up to the closing bracket.
func (p *parser) list() (list []expr) {
	for p.err == nil && !p.sign(")") {
		list = append(list, p.or())
		if !p.sign(",") {
			p.need(p.sign(")"), ", or )")
			break
		}
	}
	return list
}

func (p *parser) operand() expr {
	token := p.token
	switch p.kind {
	case atNumber:
		v, err := strconv.ParseFloat(token, 64)
		p.need(err == nil, "a number")
		p.next()
		return func(env) any { return v }
	case atString:
		p.next()
		return func(env) any { return token }
	case atParameter:
		p.next()
		return func(e env) any {
			if v, ok := e.parameters[token]; ok {
				return v
			}
			return undefined{}
		}
	case atWord:
		return p.named(token)
	}
	if !p.sign("(") {
		p.fail("an expression")
		return func(env) any { return undefined{} }
	}
	e := p.or()
	p.need(p.sign(")"), ")")
	return e
}

// named reads a literal, a function or a property that begins with a word.
func (p *parser) named(word string) expr {
	p.next()
	switch strings.ToLower(word) {
	case "true", "false":
		v := strings.EqualFold(word, "true")
		return func(env) any { return v }
	case "null":
		return func(env) any { return nil }
	case "undefined":
		return func(env) any { return undefined{} }
	}
	if word != p.alias {
		f := functions[strings.ToUpper(word)]
		p.need(f != nil && p.sign("("), "a property of "+p.alias+", or a function that is supported")
		arguments := p.list()
		return func(e env) any {
			values := make([]any, len(arguments))
			for i, a := range arguments {
				values[i] = a(e)
			}
			return f(values)
		}
	}
	var names []string
	for p.err == nil {
		switch {
		case p.sign("."):
			p.need(p.kind == atWord, "a name")
			names = append(names, p.token)
			p.next()
		case p.sign("["):
			p.need(p.kind == atString || p.kind == atNumber, "a name")
			names = append(names, p.token)
			p.next()
			p.need(p.sign("]"), "]")
		default:
			if len(names) > 0 {
				p.name = names[len(names)-1]
			}
			return func(e env) any { return property(e.doc, names) }
		}
	}
	return func(env) any { return undefined{} }
}
