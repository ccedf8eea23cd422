package inmemory

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkHit is for profiles of one contestant; figures come from the command.
//
//	go test -run '^$' -bench 'Hit/slidingttl,_slack_10_%/uniform/2$' -cpuprofile cpu.out ./internal/inmemory
func BenchmarkHit(b *testing.B) {
	const keys = 1_000_000
	for _, f := range all {
		b.Run(f.name, func(b *testing.B) {
			s := &server{f, make(map[int]store), make(map[string]stream)}
			for _, n := range []int{keys, hotKeys} {
				if _, err := s.fill(task{Keys: n}); err != nil {
					b.Fatal(err)
				}
			}
			for _, t := range hits(0, keys) {
				reads := newStream(t.Workload, t.Keys)
				b.Run(fmt.Sprintf("%s/%d", t.Workload, t.Goroutines), func(b *testing.B) {
					n := 0
					for b.Loop() {
						batch, _, err := run(s.filled[t.Keys], reads, t.Goroutines, 50*time.Millisecond)
						if err != nil {
							b.Fatal(err)
						}
						n += int(batch)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/hit")
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
}
