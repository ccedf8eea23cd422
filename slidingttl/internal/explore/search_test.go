package explore

import "slices"

// search runs programs through all of their schedules.
type search struct {
	faults int
	most   int // schedules of one program, which is cut where it has more; zero: all

	programs, schedules, redundant, steps, cut, diverged int
}

// branch is a place in a schedule: what can happen there, and what of it is tried.
type branch struct {
	choices  []action
	chosen   int
	sleeping []action // they lead to schedules that have been run
}

func contains(all []action, a action) bool { return slices.ContainsFunc(all, a.same) }

// run calls judged with each run of p. It is called in a bubble.
func (s *search) run(p program, judged func(*world)) {
	s.programs++
	var path []*branch
	strayed := 0
	for n := 0; ; n++ {
		if s.most > 0 && n >= s.most {
			s.cut++
			return
		}
		depth, diverged := 0, false
		w, completed := execute(p, s.faults, false, func(enabled []action) (action, bool) {
			if depth == len(path) {
				b := &branch{}
				if depth > 0 {
					above := path[depth-1]
					for _, z := range above.sleeping {
						if independent(z, above.choices[above.chosen]) {
							b.sleeping = append(b.sleeping, z)
						}
					}
				}
				for _, a := range enabled {
					if !contains(b.sleeping, a) {
						b.choices = append(b.choices, a)
					}
				}
				if len(b.choices) == 0 {
					return action{}, false
				}
				path = append(path, b)
			}
			a := path[depth].choices[path[depth].chosen]
			if !contains(enabled, a) {
				diverged = true
				return a, false
			}
			depth++
			s.steps++
			return a, true
		})
		// Goroutines of the store that become ready together may run in another order.
		if diverged && strayed < 100 {
			strayed++
			continue
		}
		strayed = 0
		switch {
		case diverged:
			s.diverged++
			return
		case !completed:
			s.redundant++
		default:
			s.schedules++
			judged(w)
		}
		for len(path) > 0 {
			last := path[len(path)-1]
			last.sleeping = append(last.sleeping, last.choices[last.chosen])
			if last.chosen++; last.chosen < len(last.choices) {
				break
			}
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return
		}
	}
}
