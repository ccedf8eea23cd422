package gorillastore

import (
	"bytes"
	"encoding/gob"
	"errors"
	"maps"
	"reflect"
	"slices"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// values are those of a session.
type values = map[any]any

// ConflictError says that two requests have changed a session in ways that do not go together.
//
// It matches slidingttl.ErrConflict.
type ConflictError struct {
	Key any // of the value that both changed, where Options.Merge is nil; nil: together the values name another user
}

// Error implements error. The text has no key: a program may have made it of a user's data.
func (e *ConflictError) Error() string {
	if e.Key == nil {
		return "gorillastore: another request has changed the session, and together the values name another user"
	}
	return "gorillastore: another request has changed the same value of the session"
}

// Unwrap returns slidingttl.ErrConflict.
func (e *ConflictError) Unwrap() error { return slidingttl.ErrConflict }

func encode(v values) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func decode(b []byte) (v values, err error) {
	v = values{}
	if len(b) > 0 {
		err = gob.NewDecoder(bytes.NewReader(b)).Decode(&v)
	}
	return v, err
}

// equal reports whether gob makes the same of two values. A NaN is equal to itself.
func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	if a == nil || b == nil || reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	x, err1 := encode(values{"": a})
	y, err2 := encode(values{"": b})
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// errAnotherUser says that what two requests have saved together names another user than the session's.
var errAnotherUser = errors.New("another user")

// merger makes of what the store has what it is to have.
type merger struct {
	name      string
	read      []byte // what the request has read; nil: no session
	was       values // of read
	replaces  bool   // what is saved replaces all
	saved     values // as gob has them, not as the program does
	encoded   []byte // of saved
	unchanged bool   // between was and saved
	wins      bool   // where both requests changed a value
	resolve   func(key, was, stored, saved any) (any, error)
	may       func(values) bool // whether they name the user of the session that is written

	result values // what the store then has; nil: saved, or the same as before
	stored []byte // of result
}

// newMerger returns the merger of a request that has read was and saves v.
func newMerger(name string, was []byte, v values) (m *merger, err error) {
	m = &merger{name: name, read: was}
	if m.encoded, err = encode(v); err != nil {
		return nil, err
	}
	// What gob makes of a value is not always deeply equal to it: it follows pointers.
	if m.saved, err = decode(m.encoded); err != nil {
		return nil, err
	}
	if m.was, err = decode(was); err != nil {
		return nil, err
	}
	m.stored, m.unchanged = m.encoded, maps.EqualFunc(m.was, m.saved, equal)
	return m, nil
}

// apply changes what the store has. It may be called again. Whatever way the values come about, may is
// asked: a session of values that name another user is on the wrong list, and RevokeAll does not find it.
func (m *merger) apply(d *Data) (err error) {
	if d.TakenBy != "" {
		return session.ErrEnded
	}
	m.result, m.stored = nil, m.encoded
	next := m.saved
	switch {
	case d.Name == "", m.replaces:
	case bytes.Equal(d.Values, m.read):
		if m.unchanged {
			m.stored = d.Values
		}
	default:
		now, err := decode(d.Values)
		if err != nil {
			return err
		}
		if next, err = m.merged(now); err != nil {
			return err
		}
		if m.result, m.stored = next, d.Values; !maps.EqualFunc(next, now, equal) {
			if m.stored, err = encode(next); err != nil {
				return err
			}
		}
	}
	if !m.may(next) {
		return errAnotherUser
	}
	if d.Name == "" || m.replaces {
		*d = Data{Name: m.name}
	}
	d.Values = m.stored
	return nil
}

// merged returns stored with what this request has changed.
func (m *merger) merged(stored values) (values, error) {
	result := maps.Clone(stored)
	keys := maps.Clone(m.was)
	maps.Copy(keys, m.saved)
	for key := range keys {
		was, saved, now := m.was[key], m.saved[key], stored[key] // nil: none, for gob has no nil
		next := saved
		switch {
		case equal(saved, was):
			continue
		case m.wins, equal(now, was), now == nil && saved == nil:
		default:
			var err error
			if next, err = m.resolve(key, was, now, saved); err != nil {
				return nil, err
			}
		}
		if next == nil {
			delete(result, key)
		} else {
			result[key] = next
		}
	}
	return result, nil
}

// update gives a session the values that other requests have changed. The others stay as the program
// has them.
func (m *merger) update(s *gorilla.Session) {
	if m.result == nil {
		return
	}
	if s.Values == nil {
		s.Values = values{}
	}
	maps.DeleteFunc(s.Values, func(key, _ any) bool {
		_, ok := m.result[key]
		return !ok
	})
	for key, next := range m.result {
		if !equal(next, m.saved[key]) {
			s.Values[key] = next
		}
	}
}

// mergeLists is the default of Options.Merge.
func mergeLists(key, was, stored, saved any) (any, error) {
	old, ok1 := list(was)
	theirs, ok2 := list(stored)
	ours, ok3 := list(saved)
	if !ok1 || !ok2 || !ok3 {
		return nil, &ConflictError{Key: key}
	}
	taken, added := without(old, ours), without(ours, old)
	if merged := append(without(theirs, taken), added...); len(merged) > 0 {
		return merged, nil
	}
	return nil, nil
}

// list is the list v; nil is an empty one.
func list(v any) ([]any, bool) {
	l, ok := v.([]any)
	return l, ok || v == nil
}

// without returns what l has and other has not.
func without(l, other []any) (rest []any) {
	other = slices.Clone(other)
	for _, v := range l {
		i := slices.IndexFunc(other, func(o any) bool { return equal(o, v) })
		if i < 0 {
			rest = append(rest, v)
		} else {
			other = slices.Delete(other, i, i+1)
		}
	}
	return rest
}
