// Package telemetry says what there is to see of a slidingttl.Store, under which names.
// Two modules export it: slidingotel by OpenTelemetry, and slidingprom as a Prometheus
// collector. [Metrics] is what they have in common, for others that may be wanted.
//
// The counters come from Store.Stats when they are asked for, so that they cost a call
// of the store nothing. Only the two histograms need an slidingttl.Observer, which is
// told of touches and not of reads.
//
// Names follow OpenTelemetry's conventions, and become by its rules for Prometheus what
// [Metric.Prometheus] returns. The labels are the same in both, so that the dashboard
// and the alert rules beside this package serve either.
//
// No label ever holds a key.
package telemetry
