package spec

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the files of spec/vectors")

// born is when the records of the vectors were created, in the year 2040: no store removes them by its
// own clock.
const born int64 = 2208988800123

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	noCap  = 9223372036854 // the longest duration of 64 bits in nanoseconds
)

var policies = []struct {
	name string
	Policy
}{
	{"exact", Policy{Idle: 30 * day, Max: 90 * day}},
	{"slack", Policy{Idle: 30 * day, Max: 90 * day, Slack: 3 * day}},
	{"max slack", Policy{Idle: 30 * minute, Max: 12 * hour, Slack: 3 * minute, MaxSlack: 10 * minute}},
	{"promote", Policy{Idle: 30 * day, Max: 365 * day, Promote: true}},
	{"no cap", Policy{Idle: 30 * day, Max: noCap}},
	{"odd", Policy{Idle: 1500, Max: 5001, Slack: 333}},
	{"idle is max", Policy{Idle: hour, Max: hour}},
	{"slack is idle", Policy{Idle: minute, Max: hour, Slack: minute}},
	{"a second", Policy{Idle: second, Max: 10 * second}},
	{"a millisecond", Policy{Idle: 1, Max: 2}},
}

var steps = []int64{1, second}

// TestVectors generates the vectors again, and compares them with the files.
func TestVectors(t *testing.T) {
	total := 0
	for name, cases := range map[string]any{
		"arithmetic": arithmetic(), "rounding": rounding(), "policies": policyTexts(),
		"decisions": decisions(), "histories": histories(),
		"redis": redisForms(), "dynamodb": itemForms(), "sqlite": rowForms(),
	} {
		var text bytes.Buffer
		total += write(t, &text, cases)
		file := filepath.Join("..", "..", "spec", "vectors", name+".json")
		if *update {
			if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, text.Bytes()) {
			t.Errorf("%s is not what the model says: go test ./internal/spec -update (%v)", file, err)
		}
	}
	t.Logf("%d vectors", total)
	if total < 500 {
		t.Errorf("%d vectors, want 500", total)
	}
}

// write writes a list as JSON, a line for each case.
func write(t *testing.T, to *bytes.Buffer, cases any) (n int) {
	all, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	var lines []json.RawMessage
	if err := json.Unmarshal(all, &lines); err != nil {
		t.Fatal(err)
	}
	to.WriteString("[")
	for i, line := range lines {
		if i > 0 {
			to.WriteString(",")
		}
		fmt.Fprintf(to, "\n  %s", line)
	}
	to.WriteString("\n]\n")
	return len(lines)
}

func arithmetic() (all []Arithmetic) {
	for _, p := range policies {
		for _, step := range steps {
			r, seen := Rule{p.Policy, step, 0}, map[int64]bool{}
			for _, at := range []int64{0, 1, p.Idle, p.Max - p.Idle - p.Slack, p.Max - p.Idle - p.Slack + 1, p.Max - p.Idle, p.Max - 1, p.Max, p.Max + 5} {
				if seen[at] || at < 0 || at > 100*365*day { // beyond what drivers write
					continue
				}
				seen[at] = true
				t := born + at
				all = append(all, Arithmetic{
					Name: fmt.Sprintf("%s, %d ms after, steps of %d ms", p.name, at, step), Policy: p.Policy, Step: step, Created: born, Access: t,
					Cap: r.Cap(born), Deadline: r.Deadline(born, t), Expiry: r.Expiry(born, t), Written: r.Written(born, t),
				})
			}
		}
	}
	return all
}

func rounding() (all []Rounding) {
	for _, ns := range []int64{1e6, 1000001, 1999999, born * 1e6, born*1e6 + 1, born*1e6 + 500000, born*1e6 + 999999, born*1e6 + 1e6} {
		all = append(all, Rounding{fmt.Sprint(ns), ns / 1e6, (ns + 999999) / 1e6})
	}
	return all
}

func policyTexts() (all []PolicyText) {
	for _, p := range []struct {
		text  string
		means *Policy
	}{
		{"idle 30d, max 90d", &Policy{Idle: 30 * day, Max: 90 * day}},
		{"idle 30d, max 90d, slack 3d", &Policy{Idle: 30 * day, Max: 90 * day, Slack: 3 * day}},
		{"max 12h, idle 30m", &Policy{Idle: 30 * minute, Max: 12 * hour}},
		{"idle 30m, max 12h, slack 3m, max slack 10m", &Policy{Idle: 30 * minute, Max: 12 * hour, Slack: 3 * minute, MaxSlack: 10 * minute}},
		{"idle 30d, max 365d, promote", &Policy{Idle: 30 * day, Max: 365 * day, Promote: true}},
		{"idle 30d, max none", &Policy{Idle: 30 * day, Max: noCap}},
		{"idle 1d12h, max 720h", &Policy{Idle: 36 * hour, Max: 720 * hour}},
		{"idle 1h30m, max 1h30m", &Policy{Idle: 90 * minute, Max: 90 * minute}},
		{"idle 1.5s, max 1m0.5s", &Policy{Idle: 1500, Max: 60500}},
		{"idle 1ms, max 2ms", &Policy{Idle: 1, Max: 2}},
		{"idle 1m, max 1h, slack 1m", &Policy{Idle: minute, Max: hour, Slack: minute}},
		{"idle 30d", nil},
		{"max 90d", nil},
		{"idle 90d, max 30d", nil},
		{"idle 0s, max 30d", nil},
		{"idle 100us, max 30d", nil},
		{"idle 1.5ms, max 30d", nil},
		{"idle -1s, max 30d", nil},
		{"idle 30d, max 90d, slack 31d", nil},
		{"idle 30d, max 90d, slack -1s", nil},
		{"idle 30d, max 90d, max slack 31d", nil},
		{"idle 30d, max 90d, slack 3d, max slack 1d", nil},
		{"idle 30d, max 365d, slack 3d, promote", nil},
		{"idle 30d, max none, promote", nil},
		{"idle 30d, idle 30d, max 90d", nil},
		{"idle 30 days, max 90d", nil},
		{"idle 30, max 90", nil},
		{"idle 30d; max 90d", nil},
		{"idle 30d, max 90d, jitter 3d", nil},
		{"", nil},
	} {
		all = append(all, PolicyText{p.text, p.means})
	}
	return all
}

func decisions() (all []Decision) {
	for _, p := range policies[:6] {
		for _, step := range steps {
			skew := int64(minute)
			if p.name == "odd" {
				skew = second
			}
			r := Rule{p.Policy, step, skew}
			add := func(name, do, foreign string, stored *Life, now, early int64) {
				answer, writes := r.Decide(do, foreign, stored, now, early)
				all = append(all, Decision{
					Name: fmt.Sprintf("%s, steps of %d ms: %s", p.name, step, name), Policy: p.Policy, Step: step, Skew: skew,
					Early: early, Foreign: foreign, Stored: stored, Now: now, Do: do, Answer: answer, Writes: writes,
				})
			}
			over := func(expires int64) *Life { return &Life{born, r.up(expires)} }
			now := born + p.Idle/2
			deadline, reach := r.Deadline(born, now), min(r.Cap(born), now+p.Idle+max(p.Slack, p.MaxSlack))
			if p.Promote {
				reach = r.Cap(born)
			}
			add("nothing is stored", Get, Adopt, nil, now, 0)
			add("its last millisecond", Get, Adopt, over(now+1), now, 0)
			add("its expiry", Get, Adopt, &Life{born, now / step * step}, now, 0)
			add("just due", Get, Adopt, over(deadline-step), now, 0)
			add("just not due", Get, Adopt, over(deadline), now, 0)
			if share := r.Share(); share > 0 {
				add("not due by a share", Get, Adopt, over(r.Deadline(born, now+share)), now, share)
				add("due by a share", Get, Adopt, over(r.Deadline(born, now+share)-step), now, share)
				add("due without the share", Get, Adopt, over(r.Deadline(born, now+share)-step), now, 0)
			}
			add("what a touch writes", Get, Adopt, over(r.Expiry(born, now)), now, 0)
			add("not quite beyond", Get, Adopt, &Life{born, (reach + skew + step) / step * step}, now, 0)
			add("beyond", Get, Adopt, &Life{born, (reach+skew+step)/step*step + step}, now, 0)
			add("far beyond", Get, Adopt, over(reach+1000*day), now, 0)
			add("no expiry", Get, Adopt, &Life{born, 0}, now, 0)
			if last := r.Cap(born); p.Max != noCap {
				add("before its cap", Get, Adopt, over(last), last-1, 0)
				add("at its cap", Get, Adopt, over(last+hour), last, 0)
				add("past its cap, over it", Upsert, Adopt, over(last+hour), last+1, 0)
				add("past its cap, over it", Insert, Adopt, over(last+hour), last+1, 0)
				add("past its cap by this policy", Retire, Adopt, over(last+hour), last+1, 0)
			}
			add("a late touch", Get, Adopt, over(r.Expiry(born, now)), now-p.Idle/4, 0)
			for _, mode := range []string{Adopt, ReadOnly, Reject} {
				for _, do := range []string{Get, Upsert, Retire, Insert} {
					add("of another program", do, mode, &Life{0, r.up(now + 10*day)}, now, 0)
				}
			}
			add("of another program, dead", Get, Adopt, &Life{0, now / step * step}, now, 0)
			add("of another program, without expiry", Get, Adopt, &Life{0, 0}, now, 0)
			add("nothing is stored", Insert, Adopt, nil, now, 0)
			add("a live one", Insert, Adopt, over(deadline), now, 0)
			add("a dead one", Insert, Adopt, &Life{born, now / step * step}, now, 0)
			add("nothing is stored", Upsert, Adopt, nil, now, 0)
			add("a live one", Upsert, Adopt, over(now+1), now, 0)
			add("one that lasts longer", Upsert, Adopt, over(r.Expiry(born, now)+step), now, 0)
			add("a dead one", Upsert, Adopt, &Life{born, now / step * step}, now, 0)
			add("beyond", Upsert, Adopt, over(reach+1000*day), now, 0)
			add("a live one", Retire, Adopt, over(deadline), now, 0)
			add("a dead one", Retire, Adopt, &Life{born, now / step * step}, now, 0)
			add("a live one", Peek, Adopt, over(now+1), now, 0)
		}
	}
	return all
}

// told is a history as it is generated.
type told struct {
	History
	rule   Rule
	stored *Life
	value  string
	now    int64

	lowered int64 // when the expiry was lowered last
}

// call adds a call at at, and reports false if its outcome depends on J, or on how often a process
// lowers an expiry (T3).
func (h *told) call(at int64, do, value string, p *Policy) bool {
	rule := h.rule
	if p != nil {
		rule.Policy = *p
	}
	c := Call{At: at, Do: do, Policy: p, Value: value, Answer: OK}
	stored, was := h.stored, h.value
	switch do {
	case Plant:
		stored = &Life{0, rule.up(at + rule.Idle/3)}
	case Delete:
		stored, value = nil, ""
	default:
		var writes *Life
		c.Answer, writes = rule.Decide(do, Adopt, h.stored, at, 0)
		if _, other := rule.Decide(do, Adopt, h.stored, at, rule.Share()); (writes == nil) != (other == nil) || writes != nil && *writes != *other {
			return false
		}
		if writes != nil {
			if stored != nil && writes.Created == stored.Created && writes.Expires < stored.Expires && do != Retire {
				if h.lowered != 0 && at-h.lowered < (rule.Idle+rule.Slack)/8 {
					return false
				}
				h.lowered = at
			}
			stored = writes
		}
		if do != Insert && do != Upsert || c.Answer != OK {
			value = was
		}
		if do == Get && c.Answer == OK {
			c.Value = was
		}
	}
	h.rule, h.stored, h.value, h.now, c.Stored = rule, stored, value, at, stored
	h.Calls = append(h.Calls, c)
	return true
}

func histories() (all []History) {
	type step struct {
		after int64
		do    string
		p     *Policy
	}
	exact, slack := &policies[0].Policy, &policies[1].Policy
	promote, tight, loose := &policies[3].Policy, &Policy{Idle: day, Max: 2 * day}, &Policy{Idle: 100 * day, Max: 400 * day}
	scripts := []struct {
		name  string
		steps []step
	}{
		{"dies of idleness", []step{{0, Insert, exact}, {day, Get, nil}, {30*day - 1, Get, nil}, {30 * day, Get, nil}}},
		{"dies at its cap, however often it is read", []step{{0, Insert, exact}, {29 * day, Get, nil}, {29 * day, Get, nil}, {29 * day, Get, nil}, {3*day - 1, Get, nil}, {1, Get, nil}}},
		{"slack saves touches", []step{{0, Insert, slack}, {day, Get, nil}, {day, Get, nil}, {2 * day, Get, nil}, {day / 2, Get, nil}, {33 * day, Get, nil}}},
		{"promote", []step{{0, Insert, promote}, {29 * day, Get, nil}, {335 * day, Get, nil}, {day, Get, nil}}},
		{"promote, and never read", []step{{0, Insert, promote}, {29 * day, Upsert, nil}, {30 * day, Get, nil}}},
		{"an overwrite keeps created_at", []step{{0, Insert, exact}, {day, Upsert, nil}, {29 * day, Upsert, nil}, {29 * day, Upsert, nil}, {29 * day, Upsert, nil}, {2 * day, Upsert, nil}, {day, Get, nil}}},
		{"no resurrection", []step{{0, Insert, exact}, {30 * day, Get, nil}, {0, Insert, nil}, {day, Get, nil}, {0, Delete, nil}, {0, Get, nil}, {0, Upsert, nil}, {0, Get, nil}}},
		{"a late touch never shortens", []step{{0, Insert, exact}, {day, Get, nil}, {-30 * second, Get, nil}, {-30 * second, Upsert, nil}, {day, Get, nil}}},
		{"a tighter policy", []step{{0, Insert, loose}, {day, Get, nil}, {hour, Get, exact}, {hour, Get, nil}, {10 * day, Get, tight}}},
		{"a tighter idle grace", []step{{0, Insert, exact}, {hour, Get, tight}, {hour, Get, nil}, {day - second, Get, nil}, {hour, Get, nil}}},
		{"a tighter policy, by an overwrite", []step{{0, Insert, loose}, {day, Upsert, exact}, {hour, Get, nil}, {29 * day, Get, nil}}},
		{"a looser policy", []step{{0, Insert, tight}, {hour, Get, exact}, {20 * day, Get, nil}, {29 * day, Get, nil}}},
		{"retired", []step{{0, Insert, exact}, {day, Retire, nil}, {0, Get, nil}, {0, Retire, nil}, {1, Insert, nil}, {1, Get, nil}}},
		{"retired at once", []step{{0, Insert, exact}, {1, Retire, nil}, {0, Upsert, nil}, {1, Get, nil}}},
		{"adopted", []step{{0, Plant, exact}, {hour, Get, nil}, {hour, Get, nil}, {89 * day, Get, nil}}},
		{"adopted by an overwrite", []step{{0, Plant, exact}, {hour, Upsert, nil}, {hour, Get, nil}}},
		{"of another program, dead", []step{{0, Plant, exact}, {10 * day, Get, nil}, {0, Insert, nil}, {1, Insert, nil}}},
		{"adopted again after another program's overwrite", []step{{0, Insert, exact}, {day, Plant, nil}, {day, Get, nil}, {day, Get, nil}}},
		{"inserted twice", []step{{0, Insert, exact}, {0, Insert, nil}, {1, Peek, nil}, {30 * day, Insert, nil}}},
	}
	for _, s := range steps {
		for _, script := range scripts {
			h := told{History: History{Name: script.name, Step: s, Skew: minute}, rule: Rule{Step: s, Skew: minute}, now: born}
			for i, c := range script.steps {
				if !h.call(h.now+c.after, c.do, fmt.Sprintf("v%d", i), c.p) {
					panic(script.name)
				}
			}
			all = append(all, h.History)
		}
		for seed := range uint64(40) {
			all = append(all, drawn(seed, s))
		}
	}
	return all
}

// drawn is a random history.
func drawn(seed uint64, step int64) History {
	d := rand.New(rand.NewPCG(seed, uint64(step)))
	h := told{History: History{Name: fmt.Sprintf("drawn %d", seed), Step: step, Skew: minute}, rule: Rule{Step: step, Skew: minute}, now: born}
	first := policies[d.IntN(5)].Policy
	h.call(h.now, Insert, "v0", &first)
	latest := h.now // no clock is further behind than Skew
	for len(h.Calls) < 10 {
		var p *Policy
		if d.IntN(6) == 0 {
			p = &policies[d.IntN(5)].Policy
		}
		gap := []int64{0, d.Int64N(h.rule.Idle/3 + 1), h.rule.Idle - 1, h.rule.Idle, d.Int64N(h.rule.Idle + h.rule.Slack + 2), -d.Int64N(minute)}
		do := []string{Get, Get, Get, Get, Peek, Upsert, Upsert, Insert, Retire, Delete, Plant}[d.IntN(11)]
		latest = max(latest, h.now)
		at := max(h.now+gap[d.IntN(len(gap))], born, latest-minute+1)
		h.call(at, do, fmt.Sprintf("v%d", len(h.Calls)), p)
	}
	return h.History
}
