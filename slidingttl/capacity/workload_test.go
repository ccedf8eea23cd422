package capacity_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/capacity"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// across hides that a driver's store is in memory, so that stores share it as processes
// share a server.
type across struct{ driver.Driver[int] }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// simulate has the stores of w.Processes processes read by w under p, a read at a
// time, and returns the touches a second that they count once lives lives have passed,
// for as long again. Keys come into use all through the first life, so that they are of
// all ages.
func simulate(t testing.TB, w capacity.Workload, p slidingttl.Policy, lives float64) float64 {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	now := start
	var passed atomic.Int64 // to now, for the driver's sweeper
	clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	d, err := memory.New[int](&memory.Options[int]{Now: clock})
	ok(t, err)
	defer d.Close()
	stores := make([]*slidingttl.Store[int], int(w.Processes))
	for i := range stores {
		stores[i], err = slidingttl.New(driver.Driver[int](across{d}), p, &slidingttl.Options[int]{Now: clock, Strict: true})
		ok(t, err)
		defer stores[i].Close(context.Background())
	}
	touched := func() (n uint64) {
		for _, s := range stores {
			n += s.Stats().Touched
		}
		return n
	}
	ranks := make([]float64, int(w.Keys)) // up to each, the share of reads
	sum := 0.0
	for i := range ranks {
		sum += math.Pow(float64(i+1), -w.Skew)
		ranks[i] = sum
	}
	born := make([]float64, len(ranks)) // when in the first life
	for i := range born {
		born[i] = r.Float64()
	}
	length := time.Duration(lives * float64(p.MaxLifetime))
	before, warm := uint64(0), false
	for now.Sub(start) < 2*length {
		if !warm && now.Sub(start) >= length {
			before, warm = touched(), true
		}
		now = now.Add(time.Duration(r.ExpFloat64() / w.Reads * float64(time.Second)))
		passed.Store(int64(now.Sub(start)))
		i, _ := slices.BinarySearch(ranks, r.Float64()*sum)
		if now.Before(start.Add(time.Duration(born[i] * float64(p.MaxLifetime)))) {
			continue
		}
		s, key := stores[r.IntN(len(stores))], strconv.Itoa(i)
		switch _, err := s.Get(t.Context(), key); {
		case errors.Is(err, slidingttl.ErrNotFound):
			ok(t, s.Upsert(t.Context(), key, i))
		case err != nil:
			t.Fatal(err)
		}
	}
	return float64(touched()-before) / length.Seconds()
}

// workloads are read once a slack by each key on average.
func workloads(keys float64) map[string]capacity.Workload {
	w := capacity.Workload{Keys: keys, Reads: keys / monthly.Slack.Seconds()}
	all := map[string]capacity.Workload{}
	for _, c := range []struct{ skew, processes float64 }{{0, 1}, {1.1, 1}, {1.1, 32}} {
		w.Skew, w.Processes = c.skew, c.processes
		all[fmt.Sprintf("skew %v, %v processes", c.skew, c.processes)] = w
	}
	return all
}

// monthly is 30 and 90 days with a slack of 3, an hour for a day.
var monthly = slidingttl.Policy{IdleGrace: 30 * time.Hour, MaxLifetime: 90 * time.Hour, Slack: 3 * time.Hour}

// The formula is within 5 % of stores that live through it.
func TestTouchesAreAsSimulated(t *testing.T) {
	for name, w := range workloads(100) {
		for policy, p := range map[string]slidingttl.Policy{
			"monthly":    monthly,
			"short life": {IdleGrace: 10 * time.Hour, MaxLifetime: 20 * time.Hour, Slack: time.Hour},
			"wide slack": {IdleGrace: 6 * time.Hour, MaxLifetime: 60 * time.Hour, Slack: 6 * time.Hour},
			"exact":      {IdleGrace: 8 * time.Hour, MaxLifetime: 40 * time.Hour},
			"promote":    {IdleGrace: 6 * time.Hour, MaxLifetime: 30 * time.Hour, Promote: true},
		} {
			want := simulate(t, w, p, max(1, 80*float64(time.Hour)/float64(p.MaxLifetime)))
			got, err := w.Touches(p)
			ok(t, err)
			t.Logf("%s, %s: %.5f simulated, %.5f by formula: %+.1f %%", name, policy, want, got, 100*(got/want-1))
			if math.Abs(got/want-1) > .05 {
				t.Errorf("%s, %s: the formula is off by %+.1f %%", name, policy, 100*(got/want-1))
			}
		}
	}
}

// The worked example of docs/capacity.md is what the formula says.
func TestWorkedExample(t *testing.T) {
	content, err := os.ReadFile("../../docs/capacity.md")
	ok(t, err)
	for _, skew := range []float64{0, 1.1} {
		w := capacity.Workload{Keys: 1e9, Reads: 1e6, Skew: skew, Processes: 1000, Resolution: time.Second}
		for _, policy := range []string{
			"idle 30d, max 90d", "idle 30d, max 90d, slack 1d", "idle 30d, max 90d, slack 3d", "idle 30d, max 90d, slack 10d",
			"idle 30d, max 90d, promote", "idle 30m, max 12h, slack 3m",
		} {
			p, err := slidingttl.ParsePolicy(policy)
			ok(t, err)
			touches, err := w.Touches(p)
			ok(t, err)
			line := fmt.Sprintf("| %s | %v | %.0f | %.2f |", policy, skew, touches, touches/w.Processes)
			if !strings.Contains(string(content), line+"\n") {
				t.Errorf("docs/capacity.md has not the line %s", line)
			}
		}
	}
}

// Each life that begins ends: by its cap where reads are many, and by idleness where there are few.
func TestDeaths(t *testing.T) {
	for name, c := range map[string]struct {
		reads, want float64 // of a key a second; deaths an hour
	}{
		"always in use":    {1, 1 / 90.0},
		"read once a year": {1.0 / (365 * 24 * 3600), 1 / (365.0*24 + 33)},
	} {
		deaths, err := capacity.Workload{Keys: 1000, Reads: 1000 * c.reads}.Deaths(monthly)
		ok(t, err)
		if got := deaths * 3600 / 1000; math.Abs(got/c.want-1) > .01 {
			t.Errorf("%s: %v of a key die an hour; want %v", name, got, c.want)
		}
	}
}

func TestWorkloadRejectsBadInput(t *testing.T) {
	for field, w := range map[string]capacity.Workload{
		"Workload.Keys":       {Reads: 1},
		"Workload.Reads":      {Keys: 1},
		"Workload.Skew":       {Keys: 1, Reads: 1, Skew: -1},
		"Workload.Processes":  {Keys: 1, Reads: 1, Processes: math.NaN()},
		"Workload.Resolution": {Keys: 1, Reads: 1, Resolution: -1},
		"Policy.IdleGrace":    {Keys: 1, Reads: 1},
	} {
		p := monthly
		if field == "Policy.IdleGrace" {
			p.IdleGrace = 0
		}
		var invalid *slidingttl.InvalidError
		if _, err := w.Touches(p); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v, want an InvalidError of %s", w, err, field)
		}
	}
}

func TestEdgesOfWorkloads(t *testing.T) {
	_, err := capacity.Workload{Keys: 1e15, Reads: 1e15, Skew: 1e15, Processes: 1e15}.Touches(monthly)
	ok(t, err)

	w := capacity.Workload{Keys: 100, Reads: 1}
	of := func(w capacity.Workload, p slidingttl.Policy) float64 {
		touches, err := w.Touches(p)
		ok(t, err)
		return touches
	}
	stepped := w
	stepped.Resolution = time.Millisecond
	if zero, ms := of(w, monthly), of(stepped, monthly); zero != ms || !(zero > 0) {
		t.Errorf("%v touches a second without a resolution, %v with a millisecond", zero, ms)
	}
	if n := of(w, slidingttl.Policy{IdleGrace: 50 * time.Minute, MaxLifetime: time.Hour, Slack: 10 * time.Minute}); n != 0 {
		t.Errorf("%v touches a second where the first expiry is the cap; want none", n)
	}
}

// The figures of docs/capacity.md beside the worked example: the formula holds as
// the keys become more. go test -run '^$' -bench Touches -benchtime 1x ./slidingttl/capacity
func BenchmarkTouches(b *testing.B) {
	for _, keys := range []float64{1e3, 1e4, 1e5, 1e6} {
		w := capacity.Workload{Keys: keys, Reads: keys / 1000, Skew: 1.1, Processes: 32}
		b.Run(fmt.Sprintf("keys=%.0f", keys), func(b *testing.B) {
			for b.Loop() {
				simulated := simulate(b, w, hundredth, 1)
				formula, err := w.Touches(hundredth)
				ok(b, err)
				b.ReportMetric(simulated, "simulated/s")
				b.ReportMetric(formula, "formula/s")
				b.ReportMetric(100*(formula/simulated-1), "%off")
			}
		})
	}
}

// hundredth is a policy of minutes, so that a million keys live twice in tens of millions
// of reads: a key is read every 1000 s on average, as in the worked example.
var hundredth = slidingttl.Policy{IdleGrace: 100 * time.Minute, MaxLifetime: 300 * time.Minute, Slack: 10 * time.Minute}
