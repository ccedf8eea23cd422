package metrics

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// TouchDuration and TouchLeft are histograms that an Observer fills. They hold how long
// touches took, by outcome and class of error, and how long their records had left to live.
var (
	TouchDuration = Metric{
		Name: "slidingttl.touch.duration", Kind: Histogram, Unit: "s", Label: "outcome",
		Help:    "How long touches took that were sent to the store",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}
	TouchLeft = Metric{
		Name: "slidingttl.touch.left", Kind: Histogram, Unit: "s", Label: "outcome",
		Help:    "How long records had left to live when their touch had ended, by the expiry that was read; below zero counts as zero",
		Buckets: []float64{0, 1, 10, 60, 5 * minute, 15 * minute, hour, 6 * hour, day, 3 * day, 7 * day, 30 * day, 90 * day},
	}
)

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// Metrics returns the metrics that every store has, and those of archives and files of policies.
func Metrics() []Metric {
	return []Metric{
		{
			Name: "slidingttl.reads", Kind: Counter, Unit: "{read}", Label: "outcome",
			Help: "Reads, each key of a call for many by itself: hit, or miss where there was no live record",
			series: []series{
				{"hit", func(r reading) float64 { return float64(r.Hits) }},
				{"miss", func(r reading) float64 { return float64(r.Misses) }},
			},
		},
		{
			Name: "slidingttl.reads.died", Kind: Counter, Unit: "{read}", Label: "cause",
			Help: "Of the misses, those whose record is known to have died, of idleness or of age",
			series: []series{
				{"idle", func(r reading) float64 { return float64(r.DiedIdle) }},
				{"age", func(r reading) float64 { return float64(r.DiedOfAge) }},
			},
		},
		{
			Name: "slidingttl.records.replaced", Kind: Counter, Unit: "{record}", Label: "cause",
			Help: "Dead records, still stored, over which a write began a new life: an archive lacks those that no harvest had come to before",
			series: []series{
				{"idle", func(r reading) float64 { return float64(r.ReplacedIdle) }},
				{"age", func(r reading) float64 { return float64(r.ReplacedOfAge) }},
			},
		},
		one("slidingttl.touches.due", "{touch}", "Accesses that found a touch due",
			func(r reading) uint64 { return r.Due }),
		{
			Name: "slidingttl.touches", Kind: Counter, Unit: "{touch}", Label: "outcome",
			Help: "Touches that have ended: each due access comes to one, and each retry",
			series: []series{
				touches(slidingttl.TouchWritten, func(r reading) uint64 { return r.Touched }),
				touches(slidingttl.TouchShared, func(r reading) uint64 { return r.Shared }),
				touches(slidingttl.TouchLost, func(r reading) uint64 { return r.TouchLost }),
				touches(slidingttl.TouchDeferred, func(r reading) uint64 { return r.Deferred }),
				touches(slidingttl.TouchFailed, func(r reading) uint64 { return r.TouchFails }),
				touches(slidingttl.TouchShed, func(r reading) uint64 { return r.Shed }),
			},
		},
		one("slidingttl.touches.adopted", "{touch}", "Of the touches written, those that gave a record its created_at",
			func(r reading) uint64 { return r.Adopted }),
		one("slidingttl.touches.lowered", "{write}", "Touches and writes of a value that brought an expiry down to a tighter policy",
			func(r reading) uint64 { return r.Lowered }),
		one("slidingttl.touches.damped", "{access}", "Accesses that left an expiry beyond a tighter policy alone, because it was brought down not long before",
			func(r reading) uint64 { return r.Damped }),
		one("slidingttl.clock.behind", "{access}", "Accesses that left an expiry beyond the policy alone, because records show that this process's clock is behind",
			func(r reading) uint64 { return r.Behind }),
		one("slidingttl.touches.retried", "{touch}", "Of the touches failed, those that are tried again",
			func(r reading) uint64 { return r.Retried }),
		gauge("slidingttl.touches.pending", "{touch}", "Touches that wait in the queue",
			func(r reading) float64 { return float64(r.Pending) }),
		one("slidingttl.queue.full", "{touch}", "Background touches that a read waited for because the queue was full",
			func(r reading) uint64 { return r.QueueFull }),
		{
			Name: "slidingttl.queue.saturated", Kind: Counter, Unit: "s",
			Help:   "How long touches in the queue waited for nothing but a worker",
			series: []series{{Read: func(r reading) float64 { return r.Saturated.Seconds() }}},
		},
		gauge("slidingttl.breaker.open", "", "1 while the store does not take touches, else 0",
			func(r reading) float64 { return flag(r.BreakerOpen) }),
		gauge("slidingttl.touches.late", "", "1 while reads do not wait for their touches, because those are late or fail, else 0",
			func(r reading) float64 { return flag(r.Late) }),
		one("slidingttl.budget.over", "s", "Seconds in which touches went faster than the budget because records would have died",
			func(r reading) uint64 { return r.OverBudget }),
		{
			Name: "slidingttl.promise.broken", Kind: Counter, Unit: "s",
			Help:   "What failed and shed touches cost of the life that was promised to records, at most",
			series: []series{{Read: func(r reading) float64 { return r.Broken.Seconds() }}},
		},
		one("slidingttl.hook.panics", "{panic}", "Panics recovered from hooks",
			func(r reading) uint64 { return r.HookPanics }),
		one("slidingttl.hook.skipped", "{call}", "Calls of hooks that were left out because too many waited for others to return",
			func(r reading) uint64 { return r.HooksSkipped }),
		gauge("slidingttl.clock", "s", "The time by which the store judges, in seconds since the Unix epoch",
			func(r reading) float64 { return epoch(r.Now) }),
		TouchDuration,
		TouchLeft,
		of(ofArchive, one("slidingttl.archive.records", "{record}", "Dead records that were archived, those quarantined included",
			func(r reading) uint64 { return r.Buried.Records })),
		of(ofArchive, one("slidingttl.archive.written", "By", "Bytes of the values of the dead records that were archived",
			func(r reading) uint64 { return r.Buried.Bytes })),
		of(ofArchive, one("slidingttl.archive.quarantined", "{record}", "Dead records that could not be archived as they are, and went to the quarantine",
			func(r reading) uint64 { return r.Buried.Quarantined })),
		of(ofArchive, one("slidingttl.archive.failures", "{batch}", "Batches of dead records that could not be archived, and are handed over again",
			func(r reading) uint64 { return r.Buried.Failures })),
		of(ofArchive, gauge("slidingttl.archive.lag", "s", "How long ago all that was due for the archive was in it",
			func(r reading) float64 { return r.Lag.Seconds() })),
		of(ofPolicies, gauge("slidingttl.policy.reload.successful", "", "1 if the file of policies counts as it was last read, 0 if it was refused and an earlier content is in force",
			func(r reading) float64 { return flag(r.Reloaded) })),
		of(ofPolicies, gauge("slidingttl.policy.reload.success.timestamp", "s", "When the policies in force were accepted, in seconds since the Unix epoch",
			func(r reading) float64 { return epoch(r.Accepted) })),
	}
}

func of(s source, m Metric) Metric {
	m.source = s
	return m
}

func epoch(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

func one(name, unit, help string, read func(reading) uint64) Metric {
	return Metric{Name: name, Kind: Counter, Unit: unit, Help: help,
		series: []series{{Read: func(r reading) float64 { return float64(read(r)) }}}}
}

func gauge(name, unit, help string, read func(reading) float64) Metric {
	return Metric{Name: name, Kind: Gauge, Unit: unit, Help: help, series: []series{{Read: read}}}
}

func touches(o slidingttl.TouchOutcome, read func(reading) uint64) series {
	return series{o.String(), func(r reading) float64 { return float64(read(r)) }}
}
