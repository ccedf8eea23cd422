package memory

import (
	"iter"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// All returns an iterator over all records and their keys, in no order. It leaves out those
// whose expiry has passed. It does not know the cap, which a policy sets.
//
// Other goroutines and the loop's body may write meanwhile: no lock is held while the body
// runs. A record that exists throughout the loop is seen once, with the value and life it had
// at some time during it. One that is inserted or deleted meanwhile is seen once or not at all.
func (d *Driver[T]) All() iter.Seq2[string, driver.Entry[T]] {
	return func(yield func(string, driver.Entry[T]) bool) {
		var records []*record[T]
		for i := range tableShards {
			records = d.records.shardAt(i, records[:0])
			for _, r := range records {
				if e := r.entry(); e.Alive(d.clock.instant()) && !yield(r.key(), e) {
					return
				}
			}
		}
	}
}
