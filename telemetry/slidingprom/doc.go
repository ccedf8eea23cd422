// Package slidingprom exports the metrics of telemetry/README.md to Prometheus. One
// [Collector] has all stores of a program; the label "store" tells them apart.
//
//	c := slidingprom.New()
//	prometheus.MustRegister(c)
//	observer, err := c.Observer("sessions")
//	...
//	store, err := slidingttl.New(d, policy, &slidingttl.Options[Session]{Observer: observer})
//	...
//	err = c.Add("sessions", store)
//
// Counters are read from the store's Stats when Prometheus scrapes, so they cost the
// store's calls nothing. The observer fills the two histograms of touches; without it they
// are missing. It is not called for reads.
//
// A registry takes one Collector, and refuses a second.
package slidingprom
