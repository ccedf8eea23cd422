// Package metrics defines the metrics of a slidingttl.Store and their names. Two modules
// export them: slidingotel by OpenTelemetry, and slidingprom as a Prometheus collector.
//
// The counters are read from Store.Stats when they are collected, so they cost the store's
// calls nothing. Only the two histograms need a slidingttl.Observer, which is called for
// touches and not for reads.
//
// Names follow OpenTelemetry's conventions. [Metric.Prometheus] returns them by
// OpenTelemetry's rules for Prometheus. The labels are the same in both, so the dashboard
// and the alert rules in telemetry/ work for either.
//
// No label ever holds a key.
package metrics
