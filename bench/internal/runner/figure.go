package runner

import (
	"fmt"

	"github.com/slidingttl/slidingttl/internal/chart"
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
		return fmt.Sprintf("figure %s %s", f.Name, chart.Number(f.Value))
	}
	return fmt.Sprintf("figure %s %s target %s %s %s", f.Name, chart.Number(f.Value), f.Op, chart.Number(f.Bound), f.Verdict())
}
