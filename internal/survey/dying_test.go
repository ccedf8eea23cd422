package survey_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// scans hides that a driver has an index.
type scans struct {
	driver.Scanner
	driver.Clock
}

func TestDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 1000 {
			f.Add(fmt.Sprintf("%03d", i), -day, time.Duration(1+i*7%1000)*time.Minute) // in no order
		}
		f.Add("immortal", -day, 0)
		f.Add("foreign", 0, 30*time.Second)
		f.Add("\xff", -day, 10*time.Second)
		again := driver.Meta{Life: driver.Life{CreatedAt: f.Began.Add(-day), ExpiresAt: f.Began.Add(time.Minute)}}
		s := walktest.Dead{Store: f, More: []driver.Scanned{
			{Key: "malformed", Problem: errors.New("a word")},
			{Key: "dead", Meta: driver.Meta{Life: driver.Life{CreatedAt: 1, ExpiresAt: f.Began}}},
			{Key: "000", Meta: again}, // a record may be met twice
		}}
		for limit, lines := range map[int]int{0: 62, 62: 62, 61: 61, 10: 10, 1: 1} {
			o := &survey.DyingOptions{Limit: limit}
			o.Segments, o.Page = 1, 50
			r, err := survey.Dying(t.Context(), scans{s, f}, time.Hour, o)
			ok(t, err)
			if len(r.Dying) != lines || r.More != (lines < 62) || r.Malformed != 1 || !r.Done || r.Records != 1006 || !r.Until.Equal(f.Began.Add(time.Hour).Time()) {
				t.Errorf("limit %d: %d keys of %+v", limit, len(r.Dying), r)
			}
			for i, k := range r.Dying[min(2, lines):] {
				if at := f.Began.Add(time.Duration(i+1) * time.Minute); !k.ExpiresAt.Equal(at.Time()) {
					t.Errorf("limit %d: %d is %+v", limit, i, k)
				}
			}
			text := strings.Split(r.String(), "\n")
			if want := `{"key":"\ufffd","key_bytes":"/w==","created_at":"1999-12-31T00:00:00Z","expires_at":"2000-01-01T00:00:10Z"}`; len(text) != lines || text[0] != want {
				t.Errorf("limit %d: the first of %d lines is %s", limit, len(text), text[0])
			}
			if want := `{"key":"foreign","expires_at":"2000-01-01T00:00:30Z"}`; lines > 1 && text[1] != want {
				t.Errorf("limit %d: the second line is %s", limit, text[1])
			}
		}
	})
}

// An operation that fails reports no keys: a record that dies sooner may not have been read.
func TestDyingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 20 {
			f.Add(fmt.Sprint(i), -day, time.Minute)
		}
		s := &walktest.Scripted{Store: f, Page: func(n int, from driver.Cursor, limit int) (driver.Page, error) {
			if n > 1 {
				return driver.Page{}, driver.ErrRefused
			}
			return f.Scan(t.Context(), from, limit)
		}}
		o := &survey.DyingOptions{}
		o.Segments, o.Page = 1, 5
		r, err := survey.Dying(t.Context(), scans{s, f}, time.Hour, o)
		if !errors.Is(err, driver.ErrRefused) || r.Records == 0 || r.Done || len(r.Dying) > 0 {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

// indexed is a driver with an index of expiries, that fails once.
type indexed struct {
	*fixture
	calls *int
}

func (d indexed) Dying(_ context.Context, now, until driver.Instant, limit int) ([]driver.Scanned, error) {
	if *d.calls++; *d.calls == 1 {
		return nil, errors.New("down")
	}
	var found []driver.Scanned
	for i := range limit {
		found = append(found, driver.Scanned{Key: fmt.Sprint(i), Meta: driver.Meta{Life: driver.Life{ExpiresAt: now.Add(time.Second)}}})
	}
	return append(found[:limit-1], driver.Scanned{Key: "last", Meta: driver.Meta{Life: driver.Life{ExpiresAt: until}}}), nil
}

func (d indexed) Scan(context.Context, driver.Cursor, int) (driver.Page, error) {
	return driver.Page{}, errors.New("there is an index")
}

func TestDyingByIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		r, err := survey.Dying(t.Context(), indexed{open(t), &calls}, time.Hour, &survey.DyingOptions{Limit: 2})
		ok(t, err)
		if calls != 2 || len(r.Dying) != 2 || !r.More || r.Records != 3 || !r.Done {
			t.Errorf("by %d calls: %+v", calls, r)
		}
	})
}

// A timer that asks with Since learns of each expiry once, and of every record before it dies, however
// few it takes at a time, while records are touched and inserted.
func TestDyingSince(t *testing.T) {
	const idle, within = 40 * time.Minute, 30 * time.Minute
	for _, limit := range []int{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			f := open(t)
			rnd := rand.New(rand.NewPCG(1, 2))
			expires, told := map[string]driver.Instant{}, map[string]driver.Instant{}
			touch := func(i int) {
				key, now := fmt.Sprint("key-", i), driver.Floor(f.Now())
				l := driver.Life{CreatedAt: now, ExpiresAt: now.Add(idle)}
				if e, err := f.Get(t.Context(), key); err == nil && e.Alive(now) {
					_, err = f.Touch(t.Context(), key, e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: l.ExpiresAt}, now)
					ok(t, err)
				} else {
					_, err = f.Insert(t.Context(), key, "v", l, now)
					ok(t, err)
				}
				expires[key] = l.ExpiresAt
			}
			for i := range 60 {
				touch(i)
				time.Sleep(time.Duration(rnd.IntN(3)) * 20 * time.Second) // some together
			}
			since, listed := driver.Instant(0), 0
			for range 400 {
				for range rnd.IntN(3) {
					touch(rnd.IntN(60))
				}
				time.Sleep(time.Minute)
				for now := driver.Floor(f.Now()); true; {
					r, err := survey.Dying(t.Context(), f, within, &survey.DyingOptions{Since: since, Limit: limit})
					ok(t, err)
					for _, k := range r.Dying {
						if at := driver.Floor(k.ExpiresAt); told[k.Key] == at || expires[k.Key] != at {
							t.Fatalf("%s is told at %v: %v, and before %v", k.Key, now, at, told[k.Key])
						}
						told[k.Key] = driver.Floor(k.ExpiresAt)
						listed++
					}
					since = driver.Floor(r.Through)
					if !r.More {
						break
					}
				}
				for key, at := range expires {
					if at <= driver.Floor(f.Now()) && told[key] != at {
						t.Fatalf("%s died at %v and was not told", key, at)
					}
				}
			}
			if listed < 300 {
				t.Errorf("%d were told", listed)
			}
			for i := range 9 {
				f.Add(fmt.Sprint("together-", i), -day, 300*day)
			}
			_, err := survey.Dying(t.Context(), f, 400*day, &survey.DyingOptions{Since: driver.Floor(f.Now().Add(200 * day)), Limit: 5})
			var invalid *driver.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "DyingOptions.Limit" {
				t.Errorf("%v", err)
			}
		})
	}
}
