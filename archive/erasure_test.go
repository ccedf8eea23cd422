package archive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// NaN is a value of its own: it is forgotten when it is asked for, and not with other numbers.
func TestForgetNaN(t *testing.T) {
	for value, want := range map[string]int{"42": 1, "NaN": 2, "7": 1, "0": 0} {
		for _, numbers := range [][]float64{{math.NaN(), 42, math.NaN(), 7}, {7, math.NaN(), 42, math.NaN()}} {
			b := newFake()
			w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: []archive.Column{{Name: "n", Type: archive.Number, Of: func(r *archive.Record) (any, error) {
				var i int
				_, err := fmt.Sscanf(r.Key, "key-%d", &i)
				return numbers[i], err
			}}}})
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

func (d *deaf) Create(ctx context.Context, write func(io.Writer) (string, error)) error {
	var name string
	err := d.Bucket.Create(ctx, func(w io.Writer) (_ string, err error) {
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

// A list of keys as editors and spreadsheets save it.
func TestReadKeysMarked(t *testing.T) {
	keys, err := archive.ReadKeys(strings.NewReader("\ufeffa\r\nb\r\n"))
	if want := []string{"a", "b"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v; want %q", keys, err, want)
	}
	keys, err = archive.ReadKeys(strings.NewReader("\ufeff\"a\\xff\"\n"))
	if want := []string{"a\xff"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q, %v; want %q", keys, err, want)
	}
	for _, bad := range []string{"\xff\xfea\x00\n\x00", "a\nb\xff"} { // UTF-16, Latin-1
		var invalid *driver.InvalidError
		if keys, err := archive.ReadKeys(strings.NewReader(bad)); !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Value, "line ") {
			t.Errorf("%q: %q, %v", bad, keys, err)
		}
	}
}
