package anyvalue

import (
	"math"
	"reflect"
	"testing"
	"time"
)

func TestSame(t *testing.T) {
	type pair struct {
		F any
		m map[string][]float64
	}
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	nan := func() any {
		return pair{F: &[]any{float32(math.NaN()), at}, m: map[string][]float64{"a": {math.NaN()}}}
	}
	if !same(reflect.ValueOf(nan()), reflect.ValueOf(nan())) {
		t.Error("a value is not the same as itself")
	}
	values := []any{nil, 0, 1, int8(0), 1.0, math.NaN(), "", "a", []int(nil), []int{}, []int{1}, []int{1, 2}, [2]int{}, (*int)(nil), new(int),
		map[string]int(nil), map[string]int{}, map[string]int{"a": 1}, map[string]int{"b": 1}, map[string]int{"a": 2}, pair{}, pair{F: 1}, pair{m: map[string][]float64{}}, at, at.Add(1)}
	for i, a := range values {
		for j, b := range values {
			if same(reflect.ValueOf(a), reflect.ValueOf(b)) != (i == j) {
				t.Errorf("%#v and %#v", a, b)
			}
		}
	}
}
