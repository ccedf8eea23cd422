package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/spec"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Layout is a layout of a driver's stored forms S.
type Layout[S any] struct {
	Driver  driver.Driver[Value]
	Version func(driver.Version) string // as in the stored form
	Put     func(t *testing.T, key string, form *S)
	Read    func(t *testing.T, key string) *S // nil: nothing is stored
}

// Forms reads each stored form of a file, makes the write that it names, and compares what is stored
// then to the byte. open opens a layout, once for each retention.
func Forms[S any](t *testing.T, file string, open func(t *testing.T, layout string, retain time.Duration) Layout[S]) {
	layouts := make(map[string]Layout[S])
	for i, c := range load[spec.Form[S]](t, file) {
		name := fmt.Sprint(c.Layout, c.Retain)
		l, ok := layouts[name]
		if !ok {
			l = open(t, c.Layout, time.Duration(c.Retain)*time.Millisecond)
			layouts[name] = l
		}
		t.Run(c.Layout+" "+c.Name, func(t *testing.T) { l.check(t, fmt.Sprintf("form-%d", i), c) })
	}
}

func (l Layout[S]) check(t *testing.T, key string, c spec.Form[S]) {
	var e driver.Entry[Value]
	var err error
	if c.Stored != nil {
		l.Put(t, key, c.Stored)
		e, err = l.Driver.Get(t.Context(), key)
	}
	switch {
	case c.Refused != errors.Is(err, driver.ErrInvalid) || !c.Refused && err != nil:
		t.Fatalf("Get: %v; refused is to be %v", err, c.Refused)
	case c.Life != nil && e.Life != lifeOf(c.Life):
		t.Errorf("it is read as %+v, want %+v", e.Life, *c.Life)
	case c.Version != "" && l.Version(e.Version) != c.Version:
		t.Errorf("its version is read as %s, want %s", l.Version(e.Version), c.Version)
	}
	if c.Do == "" {
		if text, err := json.Marshal(e.Value); !c.Refused && (err != nil || string(text) != c.Value) {
			t.Errorf("its value is read as %s (%v), want %s", text, err, c.Value)
		}
		return
	}
	var v Value
	if c.Value != "" {
		if err := json.Unmarshal([]byte(c.Value), &v); err != nil {
			t.Fatal(err)
		}
	}
	ctx, now := driver.WithOtherClock(t.Context()), driver.Instant(c.Now)
	switch c.Do {
	case spec.Insert:
		_, err = l.Driver.Insert(ctx, key, v, lifeOf(c.Writes), now)
	case spec.Replace:
		_, err = l.Driver.Replace(ctx, key, v, e.Meta, lifeOf(c.Writes), now)
	case spec.Touch:
		_, err = l.Driver.Touch(ctx, key, e.Meta, lifeOf(c.Writes), now)
	default:
		t.Fatalf("no such write: %q", c.Do)
	}
	if answer := answerOf(err); answer != c.Answer {
		t.Errorf("%s answers %q (%v), want %q", c.Do, answer, err, c.Answer)
	}
	if is, want := plain(t, l.Read(t, key)), plain(t, c.After); !matches(is, want) {
		t.Errorf("after %s\n%#v is stored, want\n%#v", c.Do, is, want)
	}
}

// plain is a form as encoding/json reads it.
func plain(t *testing.T, form any) (v any) {
	t.Helper()
	text, err := json.Marshal(form)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var (
	digits = regexp.MustCompile(`^[0-9]+$`)
	hex    = regexp.MustCompile(`^[0-9a-f]+$`)
)

// matches reports whether a form is what a vector wants: "?" is any digits, and a text with several
// is any hexadecimal digit in the place of each.
func matches(is, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok || len(is) != len(want) {
			return false
		}
		for name := range want {
			if v, ok := is[name]; !ok || !matches(v, want[name]) {
				return false
			}
		}
		return true
	case string:
		is, ok := is.(string)
		if want == "?" {
			return ok && digits.MatchString(is)
		}
		first, n := strings.IndexByte(want, '?'), strings.Count(want, "?")
		if first < 0 || len(is) != len(want) {
			return ok && is == want
		}
		return is[:first] == want[:first] && hex.MatchString(is[first:first+n]) && is[first+n:] == want[first+n:]
	}
	return is == want
}
