package telemetry

import (
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Store is the part of a slidingttl.Store that is read, whatever the type of its values.
type Store interface {
	Stats() slidingttl.Stats
	Now() time.Time
}

// LabelStore is the label of every metric that tells stores apart.
const LabelStore = "store"

// LabelErrorType is the label of TouchDuration for the class of error; empty without one.
// In Prometheus: error_type.
const LabelErrorType = "error.type"

// Kind is the kind of a metric: counter, gauge or histogram.
type Kind string

const (
	Counter   Kind = "counter"   // since the store was made; it never falls
	Gauge     Kind = "gauge"     // now
	Histogram Kind = "histogram" // of all touches since the store was made
)

// Metric is a metric that every store has.
type Metric struct {
	Name string // as OpenTelemetry has it: "slidingttl.touches"
	Kind Kind
	Unit string // by UCUM: "s", "{touch}"; empty: none
	Help string // a sentence without its full stop

	// Label tells the series apart, beside LabelStore. Empty: there is one series.
	Label string

	// Series are those of a counter or gauge.
	Series []Series

	// Buckets are the upper bounds of a histogram's.
	Buckets []float64
}

// Series is one of a metric's.
type Series struct {
	Value string                  // of Metric.Label
	Read  func(r Reading) float64 // its value
}

// Reading is what was read of a store at one moment.
type Reading struct {
	slidingttl.Stats
	Now time.Time // by the store's clock
}

// Prometheus is the metric's name in Prometheus, derived by OpenTelemetry's rules. Dots
// become underscores; the unit, and _total for a counter, are appended.
func (m Metric) Prometheus() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}
