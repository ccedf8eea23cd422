package drivertest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/internal/hostile"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hostiles loads hostile records, and sound ones beside them.
func (t *trial) hostiles() (bad []HostileRecord, sound map[string]driver.Entry[Value]) {
	sound = make(map[string]driver.Entry[Value])
	for i, key := range []string{hostile.Neighbour(t.prefix), t.key("0"), t.key("zz")} {
		sound[key] = t.insert(key, i, t.life(time.Hour))
	}
	all := hostile.Records(t.backendNow(), t.prefix, hostile.Limits{Key: t.b.MaxKey, Value: t.b.MaxValue})
	bad, err := hostile.LoadAll(t.ctx, t.b.Hostile, all)
	t.ok("Backend.Hostile", err)
	if len(bad) < len(all)/3 {
		t.Errorf("the store holds %d of %d hostile records: too few to prove anything", len(bad), len(all))
	}
	return bad, sound
}

// unharmed wants the sound records to be as they were.
func (t *trial) unharmed(when string, sound map[string]driver.Entry[Value]) {
	for key, e := range sound {
		t.stored(when+", a sound record beside it", key, e)
	}
}

// bearable wants err to be nil, or to say that the record is absent, invalid, refused by the
// store or in conflict. It must not contain the key.
func (t *trial) bearable(when string, r HostileRecord, err error) {
	t.quiet(when, err)
	switch {
	case err == nil, errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrConflict), errors.Is(err, slidingttl.ErrNotFound):
	case r.Guarded, r.Size > 0: // the store's own
	default:
		t.Errorf("%s: %v; want it done, or an error that says what is wrong with the record", when, err)
	}
}

var hostileCases = []testCase{{
	name:        "hostile/scan",
	explanation: "A scan must report each record that it cannot name or read, with the reason, and go on. Otherwise one row with an empty key ends every audit, adoption and sweep, or records are passed over without a sign.",
	needs:       []Feature{Hostile, Scanner},
	run: func(t *trial) {
		bad, sound := t.hostiles()
		want := make(map[string]driver.Meta)
		for key, e := range sound {
			want[key] = e.Meta
		}
		for _, limit := range []int{1, 7} {
			seen := make(visited)
			t.scanAll(t.segments(2), limit, seen, nil)
			var refused []string // names of records that may be listed under another key
			for _, r := range bad {
				_, err := t.d.Get(t.ctx, r.Key)
				isRefused := strings.HasPrefix(r.Name, "key/") && errors.Is(err, driver.ErrInvalid)
				found := seen[r.Key]
				for _, s := range found {
					t.quiet(r.Name+": the problem", s.Problem)
					if s.Problem == nil && isRefused || s.Problem != nil && !errors.Is(s.Problem, driver.ErrInvalid) {
						t.Errorf("%s comes with the problem %v; want a *driver.InvalidError", r.Name, s.Problem)
					}
				}
				switch {
				case r.Alien:
					delete(seen, r.Key)
				case isRefused:
					refused = append(refused, r.Name)
				case len(found) == 0:
					t.Errorf("%s is in no page", r.Name)
				default:
					delete(seen, r.Key)
				}
			}
			problems := 0
			maps.DeleteFunc(seen, func(key string, found []driver.Scanned) bool {
				bad := slices.ContainsFunc(found, func(s driver.Scanned) bool { return s.Problem != nil })
				if bad {
					problems += len(found)
				}
				return bad
			})
			if problems < len(refused) {
				t.Errorf("%d records came with a problem, of these at least: %v", problems, refused)
			}
			t.met("a scan past hostile records", seen, want)
		}
	},
}, {
	name:        "hostile/batch",
	explanation: "A batch must answer for its sound keys, whatever is stored under the others, which get an error each. Otherwise one bad record fails a whole page.",
	needs:       []Feature{Hostile},
	run: func(t *trial) {
		bad, sound := t.hostiles()
		keys := slices.Collect(maps.Keys(sound))
		for _, r := range bad {
			keys = append(keys, r.Key)
		}
		found, err := driver.GetMulti(t.ctx, t.d, keys)
		t.quiet("GetMulti", err)
		failed, ok := errors.AsType[driver.KeyErrors](err)
		if err != nil && !ok {
			t.Errorf("GetMulti of sound keys and others: %v; want driver.KeyErrors, or none", err)
		}
		for key, e := range sound {
			got, ok := found[key]
			if !ok {
				t.Errorf("GetMulti has no answer for a sound record")
				continue
			}
			t.same("GetMulti", got, e)
		}
		for _, f := range failed {
			if f.Index < len(sound) {
				t.Errorf("GetMulti has an error for a sound record: %v", f)
			}
			t.bearable("GetMulti", bad[max(0, f.Index-len(sound))], f.Err)
		}
	},
}, {
	name:        "hostile/calls",
	explanation: "A call with a hostile record's key must do its work or say what is wrong, and affect no other record. If the store takes one key for another, the call returns or deletes another key's record.",
	needs:       []Feature{Hostile},
	run: func(t *trial) {
		bad, sound := t.hostiles()
		for _, r := range bad {
			was := driver.Meta{Life: t.life(time.Hour), Version: 1}
			if e, err := t.d.Get(t.ctx, r.Key); err == nil {
				was = e.Meta
			}
			for _, op := range t.ops() {
				life := was.Life
				if life.CreatedAt == 0 {
					was.Life = driver.Life{ExpiresAt: life.ExpiresAt}
				}
				err := op.call(t.ctx, r.Key, was)
				if keyErrors, ok := errors.AsType[driver.KeyErrors](err); ok {
					err = keyErrors[0].Err
				}
				t.bearable(op.name+" of "+r.Name, r, err)
			}
			t.unharmed("after calls of "+r.Name, sound)
		}
	},
}, {
	name:        "hostile/store",
	explanation: "Promises 4 and 12: whatever created_at holds, a read returns the record, not found, or an error that says what is wrong; and a touch never gives the record a longer life than the policy does.",
	needs:       []Feature{Hostile},
	run: func(t *trial) {
		s := t.store(exact)
		bad, sound := t.hostiles()
		for _, r := range bad {
			_, err := s.Get(t.ctx, r.Key)
			t.bearable("Store.Get of "+r.Name, r, err)
			e, lost := t.d.Get(t.ctx, r.Key)
			if err != nil || lost != nil || r.Guarded || r.Size > 0 {
				continue
			}
			if latest := t.at(t.now().Add(max(exact.IdleGrace, time.Hour))); e.ExpiresAt == 0 || e.ExpiresAt > latest {
				t.Errorf("after Store.Get %s has %s", r.Name, describe(e.Life))
			}
		}
		found, err := s.GetMulti(t.ctx, slices.Collect(maps.Keys(sound)))
		if err != nil || len(found) != len(sound) {
			t.Errorf("Store.GetMulti of sound records: %d of %d, %v", len(found), len(sound), err)
		}
	},
}, {
	name:        "hostile/sweep",
	explanation: "A sweep must pass over records that it cannot name or read. Otherwise one row that sorts first keeps all dead records for ever, or live ones are removed with it.",
	needs:       []Feature{Hostile, Scanner},
	run: func(t *trial) {
		_, sound := t.hostiles()
		dead := t.key("dead")
		t.insert(dead, 1, t.life(t.lateness()))
		t.until(t.now().Add(t.lateness() + t.margin + t.step))
		for key, e := range sound { // some may have expired during the wait
			if !e.Alive(t.now()) {
				delete(sound, key)
			}
		}
		t.swept()
		t.unharmed("after a sweep", sound)
		if t.b.Sweep == nil {
			return
		}
		seen := make(visited)
		t.scanAll(t.segments(1), 100, seen, nil)
		for _, s := range seen[dead] {
			if s.HeldUntil <= t.now() {
				t.Errorf("after a sweep a dead record is there: %s", describe(s.Life))
			}
		}
	},
}}

// swept removes all dead records.
func (t *trial) swept() {
	if t.b.Sweep != nil {
		t.ok("Backend.Sweep", t.b.Sweep(t.ctx))
	}
}
