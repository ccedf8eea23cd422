package metrics

import (
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store is the part of a slidingttl.Store that is read, whatever the type of its values.
type Store interface {
	Stats() slidingttl.Stats
	Now() time.Time
}

// Archived is what is read of where the dead of a store go, such as an archive.Archiver.
type Archived interface{ Stats() driver.BuryStats }

// Followed is what is read of a file of policies, such as a policyfile.File. LastReload says
// whether the file counts as it was last read, and when what is in force was accepted.
type Followed interface {
	LastReload() (successful bool, accepted time.Time)
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

// source says of what a metric is exported.
type source int

const (
	ofStore    source = iota // what Add was given
	ofArchive                // what AddArchive was given
	ofPolicies               // what AddPolicies was given
)

// Metric is a metric that every store has.
type Metric struct {
	source source

	Name string // as OpenTelemetry has it: "slidingttl.touches"
	Kind Kind
	Unit string // by UCUM: "s", "By", "{touch}"; empty: none
	Help string // a sentence without its full stop

	// Label tells the series apart, beside LabelStore. Empty: there is one series.
	Label string

	// series are those of a counter or gauge, which Stores.Read reads.
	series []series

	// Buckets are the upper bounds of a histogram's.
	Buckets []float64
}

// series is one of a metric's.
type series struct {
	Value string                  // of Metric.Label
	Read  func(r reading) float64 // its value
}

// reading is what was read at one moment of a store, of its archive, or of its file of policies.
type reading struct {
	slidingttl.Stats
	Now time.Time // by the store's clock

	Buried driver.BuryStats
	Lag    time.Duration // since Buried.Through, or while that is zero since it was added

	Reloaded bool      // Followed.LastReload's successful
	Accepted time.Time // and its accepted
}

// Prometheus is the metric's name in Prometheus, derived by OpenTelemetry's rules. Dots
// become underscores; the unit, and _total for a counter, are appended.
func (m Metric) Prometheus() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}
