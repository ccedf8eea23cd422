package cosmostest

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// property returns the value at names in doc.
func property(doc map[string]any, names []string) any {
	var value any = doc
	for _, name := range names {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[name]
			if !ok {
				return undefined{}
			}
			value = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return undefined{}
			}
			value = v[i]
		default:
			return undefined{}
		}
	}
	return value
}

// compare is undefined for values of different types, as in Cosmos DB.
func compare(sign string, a, b any) any {
	if reflect.TypeOf(a) != reflect.TypeOf(b) || a == (undefined{}) {
		return undefined{}
	}
	order := 0
	switch x := a.(type) {
	case float64:
		order = cmp.Compare(x, b.(float64))
	case string:
		order = cmp.Compare(x, b.(string))
	default:
		if sign != "=" && sign != "!=" && sign != "<>" {
			return undefined{}
		}
		if !reflect.DeepEqual(a, b) {
			order = 1
		}
	}
	switch sign {
	case "=":
		return order == 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
	return order != 0
}

// functions are those that queries may call. A missing argument is undefined.
var functions = map[string]func([]any) any{
	"IS_DEFINED": func(a []any) any { return len(a) == 1 && a[0] != any(undefined{}) },
	"IS_NULL":    func(a []any) any { return len(a) == 1 && a[0] == nil },
	"IS_NUMBER":  is[float64],
	"IS_STRING":  is[string],
	"IS_BOOL":    is[bool],
	"STARTSWITH": func(a []any) any {
		if len(a) < 2 {
			return undefined{}
		}
		x, okX := a[0].(string)
		y, okY := a[1].(string)
		if !okX || !okY {
			return undefined{}
		}
		return strings.HasPrefix(x, y)
	},
}

func is[T any](a []any) any {
	if len(a) != 1 {
		return undefined{}
	}
	_, ok := a[0].(T)
	return ok
}

// matches reports whether the query finds doc.
func (q *query) matches(doc map[string]any, parameters map[string]any) bool {
	return q.where == nil || q.where(env{doc, parameters}) == true
}

// selected returns the query's row for doc, and false if there is none.
func (q *query) selected(doc map[string]any, parameters map[string]any) (any, bool) {
	if q.all {
		return doc, true
	}
	e := env{doc, parameters}
	if q.value {
		v := q.list[0].expr(e)
		return v, v != any(undefined{})
	}
	row := make(map[string]any, len(q.list))
	for _, c := range q.list {
		if v := c.expr(e); v != any(undefined{}) {
			row[c.name] = v
		}
	}
	return row, true
}
