package slidingprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Collector collects the metrics of stores for a registry. Its methods are safe for
// concurrent use.
type Collector struct {
	read     map[int]described // by their place in metrics.Metrics
	duration *prometheus.HistogramVec
	left     *prometheus.HistogramVec
	stores   metrics.Stores
}

var _ prometheus.Collector = (*Collector)(nil)

// described is a metric that is read when it is collected.
type described struct {
	metrics.Metric
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// New returns a collector without stores. The caller registers it.
func New() *Collector {
	c := &Collector{
		read:     make(map[int]described),
		duration: histogram(metrics.TouchDuration, metrics.TouchDuration.Label, errorType),
		left:     histogram(metrics.TouchLeft, metrics.TouchLeft.Label),
	}
	for i, m := range metrics.Metrics() {
		if m.Kind == metrics.Histogram {
			continue
		}
		labels := []string{metrics.LabelStore}
		if m.Label != "" {
			labels = append(labels, m.Label)
		}
		kind := prometheus.GaugeValue
		if m.Kind == metrics.Counter {
			kind = prometheus.CounterValue
		}
		c.read[i] = described{m, prometheus.NewDesc(m.Prometheus(), m.Help, labels, nil), kind}
	}
	return c
}

// errorType is metrics.LabelErrorType as Prometheus spells it.
const errorType = "error_type"

func histogram(m metrics.Metric, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Prometheus(), Help: m.Help, Buckets: m.Buckets},
		append([]string{metrics.LabelStore}, labels...))
}

// Add collects the metrics of s from now on, with store as their label. If the name was
// added before, the error is a *slidingttl.InvalidError.
func (c *Collector) Add(store string, s interface {
	Stats() slidingttl.Stats
	Now() time.Time
}) error {
	return c.stores.Add(store, s)
}

// AddArchive collects the metrics of an archive from now on, with store as their label. The
// archive, such as an archive.Archiver, takes that store's dead records. The error is a
// *slidingttl.InvalidError if the name was added before.
func (c *Collector) AddArchive(store string, a interface{ Stats() driver.BuryStats }) error {
	return c.stores.AddArchive(store, a)
}

// AddPolicies collects the metrics of the file of policies that a store follows. Their label is
// store; a file of several stores is added for each. The error is a
// *slidingttl.InvalidError if the name was added before.
func (c *Collector) AddPolicies(store string, f interface {
	LastReload() (successful bool, accepted time.Time)
}) error {
	return c.stores.AddPolicies(store, f)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.read {
		to <- d.desc
	}
	c.duration.Describe(to)
	c.left.Describe(to)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for name, v := range c.stores.Read() {
		d := c.read[v.Metric]
		labels := []string{name}
		if d.Label != "" {
			labels = append(labels, v.Label)
		}
		to <- prometheus.MustNewConstMetric(d.desc, d.kind, v.Is, labels...)
	}
	c.duration.Collect(to)
	c.left.Collect(to)
}
