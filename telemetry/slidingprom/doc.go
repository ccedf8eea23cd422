// Package slidingprom shows the metrics of package telemetry to Prometheus. One
// [Collector] has all the stores of a program, told apart by the label "store".
//
//	c := slidingprom.New()
//	prometheus.MustRegister(c)
//	observer, err := c.Observer("sessions")
//	...
//	store, err := slidingttl.New(d, policy, &slidingttl.Options[Session]{Observer: observer})
//	...
//	err = c.Add("sessions", store)
//
// Counters are read from the store's Stats when Prometheus asks, so that a call of the
// store pays nothing for them. The observer fills the two histograms of touches; without
// it they are not there. It is told of no read.
//
// A registry takes one Collector, and refuses a second.
package slidingprom
