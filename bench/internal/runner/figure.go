package runner

import (
	"fmt"
	"math"
	"strconv"
)

// Figure is a value measured and, where Op is not empty, the target it is held
// against.
type Figure struct {
	Name  string
	Value float64
	Op    string // "<=" or ">="
	Bound float64
}

// OK reports whether the figure meets its target.
func (f Figure) OK() bool {
	switch f.Op {
	case "<=":
		return f.Value <= f.Bound
	case ">=":
		return f.Value >= f.Bound
	}
	return true
}

// Verdict is "ok" or "short", or nothing where there is no target.
func (f Figure) Verdict() string {
	switch {
	case f.Op == "":
		return ""
	case f.OK():
		return "ok"
	}
	return "short"
}

// String is the line that is printed.
func (f Figure) String() string {
	if f.Op == "" {
		return fmt.Sprintf("figure %s %s", f.Name, Number(f.Value))
	}
	return fmt.Sprintf("figure %s %s target %s %s %s", f.Name, Number(f.Value), f.Op, Number(f.Bound), f.Verdict())
}

// Thousands writes n with a comma before each three digits.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Number writes v with three digits or so.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e9:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
