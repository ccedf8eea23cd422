package archive_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// NaN is a value of its own: it is forgotten when it is asked for, and not with other numbers.
func TestForgetNaN(t *testing.T) {
	for value, want := range map[string]int{"42": 1, "NaN": 2, "7": 1, "0": 0} {
		for _, numbers := range [][]float64{{math.NaN(), 42, math.NaN(), 7}, {7, math.NaN(), 42, math.NaN()}} {
			b := newFake()
			w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: []archive.Column{archive.NewColumn("n", func(r *archive.Record) (float64, bool, error) {
				var i int
				_, err := fmt.Sscanf(r.Key, "key-%d", &i)
				return numbers[i], true, err
			})}})
			ok(t, err)
			write(t, w, batch(0, len(numbers), 0))
			r, err := archive.Forget(t.Context(), b, archive.Selection{Column: "n", Value: value}, nil)
			if err != nil || r.Records != int64(want) || len(all(t, b)) != len(numbers)-want {
				t.Errorf("n=%s of %v: %+v, %v, and %d are left; want %d forgotten", value, numbers, r, err, len(all(t, b)), want)
			}
		}
	}
}

// deaf is a bucket whose first answer to the creation of a manifest file is lost: the caller gets err
// in its place.
type deaf struct {
	archive.Bucket
	err  error
	lost bool
}

func (d *deaf) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	var name string
	err := d.Bucket.Create(ctx, dir, func(w io.Writer) (_ string, err error) {
		name, err = write(w)
		return name, err
	})
	if err == nil && !d.lost && strings.Contains(name, "manifest") {
		d.lost = true
		return d.err
	}
	return err
}

// A commit whose answer is lost, or that was sent twice, has happened: Forget says what it forgot.
func TestForgetLostAnswer(t *testing.T) {
	for _, lost := range []error{fmt.Errorf("sent twice: %w", fs.ErrExist), errors.New("the connection broke")} {
		b := people(t)
		want, err := archive.Forget(t.Context(), b.clone(), archive.Selection{Prefix: "user:3:"}, nil)
		ok(t, err)
		d := &deaf{Bucket: b, err: lost}
		r, err := archive.Forget(t.Context(), d, archive.Selection{Prefix: "user:3:"}, nil)
		if err != nil || !d.lost || r.Records != want.Records || r.Files != want.Files || len(holders(t, b, "user:3:")) != 0 {
			t.Errorf("%v: %+v, %v; want %+v", lost, r, err, want)
		}
	}
}

// The report has each thing asked for, found or not, and where, also when it is read from JSON.
func TestForgetReport(t *testing.T) {
	b := people(t)
	write(t, writer(t, b), lot{Source: "links", Records: []archive.Record{{Key: "user:3:3"}}}) // into the quarantine
	asked := archive.Selection{Keys: []string{"user:3:13", "nobody", "\xffuser:3:3", "user:3:3", "nobody"}}
	r, err := archive.Forget(t.Context(), b, asked, nil)
	ok(t, err)
	day := func(days int) archive.Day { return archive.DayOf(at(noon.AddDate(0, 0, days))) }
	want := []archive.Asked{
		{Key: "base64:" + base64.StdEncoding.EncodeToString([]byte("\xffuser:3:3")), Found: archive.Found{Records: 3}, Days: map[archive.Day]int64{day(0): 1, day(1): 1, day(2): 1}},
		{Key: "nobody"},
		{Key: "user:3:13", Found: archive.Found{Records: 6}, Days: map[archive.Day]int64{day(0): 2, day(1): 2, day(2): 2}},
		{Key: "user:3:3", Found: archive.Found{Records: 1}, Days: map[archive.Day]int64{archive.Quarantine: 1}},
	}
	slices.SortFunc(r.Asked, func(a, b archive.Asked) int { return strings.Compare(a.Key, b.Key) })
	if !reflect.DeepEqual(r.Asked, want) || r.Records != 10 || r.Began.IsZero() || r.Ended.Before(r.Began) || r.Lists["problems"] != nil {
		t.Errorf("%+v; want %+v", r, want)
	}
	text, err := json.Marshal(r)
	ok(t, err)
	var again archive.Report
	ok(t, json.Unmarshal(text, &again))
	if back, err := json.Marshal(&again); err != nil || string(back) != string(text) {
		t.Errorf("%s is read as %s, %v", text, back, err)
	}

	// A crash after a commit leaves files that do not count and hold the keys still.
	hidden := int64(0)
	for calls := range 9 {
		b := b.clone()
		first, err := archive.Forget(t.Context(), crash(b, calls, false), archive.Selection{Prefix: "user:4:"}, nil)
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		r, err := archive.Forget(t.Context(), b, archive.Selection{Prefix: "user:4:"}, nil)
		if err != nil || first.Records+r.Records != 18 || len(holders(t, b, "user:4:")) != 0 {
			t.Errorf("%+v, and before %+v, %v", r, first, err)
		}
		hidden += r.Asked[0].Hidden
	}
	if hidden == 0 {
		t.Error("no crash has left a file that does not count")
	}

	// What is locked is told apart.
	l := &locking{b, map[string]time.Time{"day=2026-11-22/": noon}}
	r, err = archive.Forget(t.Context(), l, archive.Selection{Prefix: "user:5:"}, nil)
	if !errors.Is(err, archive.ErrLocked) || r.Asked[0].Records == 0 || r.Asked[0].Locked == 0 || len(r.Lists["problems"]) == 0 || left(r) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A Forget that is killed at any call, time and again, reports in the end what one run would have found.
func TestForgetResumed(t *testing.T) {
	what := archive.Selection{Keys: []string{"user:4:4", "user:4:14", "user:4:24", "nobody"}}
	want, err := archive.Forget(t.Context(), people(t), what, nil)
	ok(t, err)
	for _, after := range []bool{false, true} {
		for calls := range 14 {
			b := people(t)
			var last *archive.Report
			save := func(r *archive.Report) error { last = r; return nil }
			for n := range 20 {
				var c archive.Bucket = crash(b, calls+n/4, after)
				if n == 19 {
					c = b
				}
				r, err := archive.Forget(t.Context(), c, what, &archive.ForgetOptions{Save: save, Before: last})
				if err != nil {
					continue
				}
				for i, a := range r.Asked {
					if !maps.Equal(a.Days, want.Asked[i].Days) {
						t.Fatalf("killed %d times at call %d: %+v; want %+v", n, calls, a, want.Asked[i])
					}
				}
				break
			}
		}
	}
}
