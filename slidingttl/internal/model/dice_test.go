package model

import "time"

// dice is a small random source, so that each client and each call of a driver can
// have its own: a history then depends on its seed and not on the scheduler.
type dice uint64

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// n returns a number from 0 to n-1.
func (d *dice) n(n int) int { return int(d.next() % uint64(n)) }

// oneIn is true once in n.
func (d *dice) oneIn(n int) bool { return d.n(n) == 0 }

// upTo returns a duration to the nanosecond, from 0 to most.
func (d *dice) upTo(most time.Duration) time.Duration {
	return time.Duration(d.next() % uint64(most+1))
}

// fork returns another source, derived from what.
func (d dice) fork(what ...uint64) dice {
	for _, w := range what {
		d ^= dice(w)
		d.next()
	}
	return d
}

func pick[T any](d *dice, of ...T) T { return of[d.n(len(of))] }

// text turns a string into something to fork by.
func text(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
