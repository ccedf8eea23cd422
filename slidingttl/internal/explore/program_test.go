package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// program is what is run through all of its schedules.
type program struct {
	driver string // features of the driver, joined by "+"; see dial
	mode   string // one of modes
	start  string // one of starts
	calls  []call
}

// call is one call of a client. It begins at any time, or after another has ended.
type call struct {
	name    string
	process int // ofTime: time passes
	after   int // number of the call that it follows, from one; zero: none
}

// ofTime is the process of a call that lets time pass.
const ofTime = -1

// ofAny is the process of an action that may be of any.
const ofAny = -2

// String returns the program as parse reads it.
func (p program) String() string {
	var calls []string
	for _, c := range p.calls {
		s := c.name
		if c.process != ofTime {
			s += fmt.Sprintf("@%d", c.process)
		}
		if c.after > 0 {
			s += fmt.Sprintf(">%d", c.after)
		}
		calls = append(calls, s)
	}
	return strings.Join([]string{p.driver, p.mode, p.start, strings.Join(calls, ",")}, "/")
}

func parse(text string) (program, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 {
		return program{}, fmt.Errorf("program %q: must be driver/mode/start/calls", text)
	}
	p := program{driver: parts[0], mode: parts[1], start: parts[2]}
	for feature := range strings.SplitSeq(p.driver, "+") {
		if !slices.Contains(features, feature) {
			return p, fmt.Errorf("program %q: driver must be of %v", text, features)
		}
	}
	if _, ok := modes[p.mode]; !ok {
		return p, fmt.Errorf("program %q: no such mode", text)
	}
	if starts[p.start] == nil {
		return p, fmt.Errorf("program %q: no such start", text)
	}
	for i, s := range strings.Split(parts[3], ",") {
		c := call{process: ofTime}
		s, after, follows := strings.Cut(s, ">")
		name, process, ofProcess := strings.Cut(s, "@")
		c.name = name
		var err error
		if ofProcess {
			c.process, err = strconv.Atoi(process)
		}
		if err == nil && follows {
			c.after, err = strconv.Atoi(after)
		}
		_, passes := passing[name]
		if err != nil || c.after < 0 || c.after > i || passes == ofProcess || !passes && doing[name] == nil || c.process > 2 {
			return p, fmt.Errorf("program %q: call %q is none", text, s)
		}
		p.calls = append(p.calls, c)
	}
	return p, nil
}

// processes is how many the program needs, at least two.
func (p program) processes() int {
	n := 2
	for _, c := range p.calls {
		n = max(n, c.process+1)
	}
	return n
}

// has reports whether one of the calls is one of names.
func (p program) has(names ...string) bool {
	return slices.ContainsFunc(p.calls, func(c call) bool { return slices.Contains(names, c.name) })
}

// combinations calls f with each program's calls: n of names, in all ways to spread them
// over at most so many processes, which are interchangeable.
func combinations(n, processes int, names []string, f func([]call)) {
	var add func(calls []call, from, used int)
	add = func(calls []call, from, used int) {
		if len(calls) == n {
			f(slices.Clone(calls))
			return
		}
		for i := from; i < len(names); i++ {
			c := call{name: names[i]}
			if _, passes := passing[c.name]; passes {
				c.process = ofTime
				add(append(calls, c), i+1, used)
				continue
			}
			for p := range min(used+1, processes) {
				if last := len(calls) - 1; last >= 0 && calls[last].name == c.name && p < calls[last].process {
					continue // the same as the other way round
				}
				c.process = p
				add(append(calls, c), i, max(used, p+1))
			}
		}
	}
	add(nil, 0, 0)
}

// chains calls f with each program that is a sequence of n of names in process 0 beside a
// sequence of m in process 1.
func chains(n, m int, names []string, f func([]call)) {
	var add func(calls []call)
	add = func(calls []call) {
		if len(calls) == n+m {
			f(slices.Clone(calls))
			return
		}
		for _, name := range names {
			c := call{name: name, after: len(calls)}
			if len(calls) >= n {
				c.process = 1
			}
			if len(calls) == n {
				c.after = 0
			}
			if _, passes := passing[name]; passes {
				c.process = ofTime
			}
			add(append(calls, c))
		}
	}
	add(nil)
}
