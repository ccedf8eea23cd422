package anyvalue

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Any is a value of the current case's type. encoding/json sees that type.
type Any struct{ V any }

var current atomic.Pointer[reflect.Type] // nil: an empty struct

// Fill makes a.V a new value of the current case's type that decode has filled.
func (a *Any) Fill(decode func(into any) error) error {
	t := reflect.TypeFor[struct{}]()
	if now := current.Load(); now != nil {
		t = *now
	}
	into := reflect.New(t)
	err := decode(into.Interface())
	a.V = into.Elem().Interface()
	return err
}

// MarshalJSON implements json.Marshaler. It is a method of the pointer, as that of big.Int is: what a driver
// encodes by value has no method, and is not read back.
func (a *Any) MarshalJSON() ([]byte, error) { return json.Marshal(Addressed(a.V)) }

// Addressed returns a pointer to a copy of v, through which an encoder finds the methods of pointers in it.
func Addressed(v any) any {
	if v == nil {
		return nil
	}
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Any) UnmarshalJSON(b []byte) error {
	return a.Fill(func(into any) error { return json.Unmarshal(b, into) })
}

// Target is one layout of a driver.
type Target[T any] struct {
	Name  string
	Shape Shape

	// Box makes a T of a value of the current case's type.
	Box func(v any) T

	// Open returns a driver as in a process of its own.
	Open func() (driver.Driver[T], error)

	// Image is v as the driver's codec alone encodes and decodes it, without Shape.Own.
	Image func(v T) (T, error)

	// Replaces says that the codec is the test's own, which may put U+FFFD in place of text that is not UTF-8.
	Replaces bool

	// Foreign writes the record of another program under a key, over any that is there, by the store's
	// own client. It returns what is odd about it.
	Foreign func(ctx context.Context, key string, r *rand.Rand) (what string, err error)

	// Theirs reads a value as another program does, by the store's own client. Nil: nobody else reads.
	Theirs func(ctx context.Context, key string) (T, error)

	// Earlier says that another program may give a key an earlier end than its record's, which walks see and reads do not.
	Earlier bool

	// Now is the time, and Advance moves it on.
	Now     func() time.Time
	Advance func(time.Duration)

	// Key is the key of a case. Nil: the digits of n.
	Key func(n uint64) string
}

// most is how many failures end a run.
const most = 5

var (
	firstFlag = flag.Uint64("anyvalue.first", 1, "the first case of any value over any record")
	casesFlag = flag.Int("anyvalue.cases", 0, "how many of them are judged; 0: as many as the test says")
)

// Run judges n cases, each with a layout drawn from targets. -anyvalue.first and -anyvalue.cases name others to
// judge, by the number that a failure prints.
func Run[T any](t *testing.T, n int, targets ...Target[T]) {
	t.Helper()
	first := *firstFlag
	if *casesFlag > 0 {
		n = *casesFlag
	}
	defer current.Store(nil) // the next run opens its drivers without a case
	var sum tally
	began := time.Now()
	for failed, seed := 0, first; seed < first+uint64(n) && failed < most; seed++ {
		c := newCase(t.Context(), seed, targets)
		if err := c.judge(&sum); errors.Is(err, driver.ErrAmbiguous) {
			sum.Lost++
		} else if err != nil {
			failed++
			t.Errorf("-anyvalue.first=%d -anyvalue.cases=1: %s: %v: %v\n\t%s", seed, c.target.Name, c.typ, err, strings.Join(c.steps, "\n\t"))
		}
	}
	t.Logf("%d cases from %d in %v: %+v", n, first, time.Since(began).Round(time.Millisecond), sum)
	if n >= 1000 && (sum.Types*4 < n || sum.Read < n || sum.Refused > sum.Written || sum.Foreign*5 < n || sum.RefusedTypes == 0 && len(targets[0].Shape.Own) > 0) {
		t.Errorf("the cases show too little: %+v", sum)
	}
}

// tally counts what the cases of a run have seen.
type tally struct {
	Types, RefusedTypes          int // accepted and refused by New
	Written, Refused             int // values
	Foreign, Unreadable, Replace int // records of other programs: written, refused by a read, overwritten
	Read                         int // values that were right
	Lost                         int // cases that ended early, because an answer was lost
}

type judged[T any] struct {
	generator
	ctx    context.Context
	target *Target[T]
	typ    reflect.Type
	key    string
	beside string // the key of a sound record
	steps  []string

	stores [2]*slidingttl.Store[T]
	driver driver.Driver[T]
	sum    *tally

	state state
	want  T // the image of the value, if state is ours
}

// state is what is stored under a key.
type state int

const (
	absent state = iota
	ours
	foreign
)

func newCase[T any](ctx context.Context, seed uint64, targets []Target[T]) *judged[T] {
	r := rand.New(rand.NewPCG(seed, 0))
	target := &targets[r.IntN(len(targets))]
	c := &judged[T]{generator: generator{r, &target.Shape}, ctx: ctx, target: target}
	c.typ = c.top()
	current.Store(&c.typ)
	key := target.Key
	if key == nil {
		key = func(n uint64) string { return strconv.FormatUint(n, 10) }
	}
	c.key, c.beside = key(2*seed), key(2*seed+1)
	return c
}

func (c *judged[T]) step(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.steps = append(c.steps, text[:min(len(text), 400)])
}

// judge judges the case, and returns what is wrong.
func (c *judged[T]) judge(sum *tally) (err error) {
	c.sum = sum
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	for i := range c.stores {
		d, err := c.target.Open()
		if err != nil {
			sum.RefusedTypes++
			if errors.Is(err, driver.ErrInvalid) && collides(c.typ, c.shape.Tag, c.shape.Own) {
				return nil
			}
			return fmt.Errorf("by New: it refuses a type that is sound: %w", err)
		}
		policy := slidingttl.Policy{IdleGrace: 3 * time.Hour, MaxLifetime: 4 * time.Hour}
		c.stores[i], err = slidingttl.New(d, policy, &slidingttl.Options[T]{Now: c.target.Now, TouchWait: time.Minute, Remember: 16})
		if err != nil {
			return err
		}
		defer func(s *slidingttl.Store[T]) { err = errors.Join(err, s.Close(context.WithoutCancel(c.ctx))) }(c.stores[i])
		c.driver = d
	}
	sum.Types++
	defer func() {
		for _, key := range []string{c.key, c.beside} {
			if bad := c.driver.Delete(context.WithoutCancel(c.ctx), key); bad != nil && !c.mayFail(bad) {
				err = errors.Join(err, bad)
			}
		}
	}()
	sound, err := c.write(c.beside, "Insert beside", c.stores[0].Insert)
	if err != nil {
		return err
	}
	if c.chance(40) {
		if err := c.foreign(); err != nil {
			return err
		}
	}
	for range 3 + c.IntN(4) {
		if err := c.next(); err != nil {
			return err
		}
		if err := c.read(); err != nil {
			return err
		}
	}
	return c.all(sound != nil)
}

// next makes the next step.
func (c *judged[T]) next() error {
	s := c.stores[c.IntN(2)]
	if c.chance(50) {
		d := time.Duration(1+c.IntN(20)) * time.Minute
		c.step("advance %v", d)
		c.target.Advance(d)
	}
	var wrote *T
	var err error
	switch n := c.IntN(100); {
	case n < 50:
		wrote, err = c.write(c.key, "Upsert", s.Upsert)
	case n < 65:
		wrote, err = c.write(c.key, "Insert", s.Insert)
	case n < 80:
		wrote, err = c.write(c.key, "Update", func(ctx context.Context, key string, v T) error {
			_, err := s.Update(ctx, key, func(T) (T, error) { return v, nil })
			return err
		})
	case n < 85:
		return c.foreign()
	case n < 90:
		c.step("Delete")
		err := s.Delete(c.ctx, c.key)
		if err == nil {
			c.state = absent
		} else if c.mayFail(err) { // of a type that the driver leaves alone
			err = nil
		}
		return err
	default:
		c.step("Touch")
		if _, err := s.Touch(c.ctx, c.key); err != nil && !c.mayFail(err) {
			return fmt.Errorf("by Touch: %w", err)
		}
	}
	if wrote != nil {
		if c.state == foreign {
			c.sum.Replace++
		}
		c.state, c.want = ours, *wrote
	}
	return err
}

// mayFail reports whether the state explains an error of a call.
func (c *judged[T]) mayFail(err error) bool {
	return c.state == absent && errors.Is(err, slidingttl.ErrNotFound) ||
		c.state == foreign && (errors.Is(err, driver.ErrInvalid) || errors.Is(err, slidingttl.ErrNotFound))
}

// write writes a value, and returns its image if it was accepted.
func (c *judged[T]) write(key, what string, write func(context.Context, string, T) error) (*T, error) {
	t := c.typ
	if len(c.shape.Tops) > 0 {
		t = c.top()
	}
	v := c.target.Box(c.value(t, 0).Interface())
	c.step("%s %+v", what, v)
	image, codec := c.target.Image(v)
	if codec == nil {
		image, codec = c.target.Image(image)
	}
	err := write(c.ctx, key, v)
	switch {
	case err == nil && codec == nil && !c.target.Replaces && replaced(reflect.ValueOf(v), reflect.ValueOf(image)):
		return nil, fmt.Errorf("%s: it has text that is not UTF-8, and is written as %+v", what, image)
	case err == nil && codec == nil:
		c.sum.Written++
		return &image, nil
	case err == nil:
		// The codec writes what it does not read. No driver can tell.
		c.step("written, and not readable: %v", codec)
		if key == c.key {
			c.state = absent
		}
		return nil, c.driver.Delete(c.ctx, key)
	case errors.Is(err, driver.ErrInvalid):
		c.sum.Refused++
		c.step("refused: %v", err)
		return nil, nil
	case errors.Is(err, slidingttl.ErrExists) && c.state != absent, errors.Is(err, slidingttl.ErrNotFound) && c.state != ours:
		return nil, nil
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

func (c *judged[T]) foreign() error {
	what, err := c.target.Foreign(c.ctx, c.key, c.Rand)
	c.step("another program writes %s", what)
	c.state = foreign
	c.sum.Foreign++
	return err
}

// read reads the record in each process.
func (c *judged[T]) read() error {
	for i, s := range c.stores {
		got, err := s.Get(c.ctx, c.key)
		if err := c.is(got, err); err != nil {
			return fmt.Errorf("by Get of process %d: %w", i, err)
		}
	}
	if c.target.Theirs == nil || c.state != ours {
		return nil
	}
	if err := c.is(c.target.Theirs(c.ctx, c.key)); err != nil {
		return fmt.Errorf("by another program: %w", err)
	}
	return nil
}

// is compares what a read returned with what is stored.
func (c *judged[T]) is(got T, err error) error {
	switch {
	case err != nil && c.mayFail(err):
		c.sum.Unreadable++
		return nil
	case err != nil:
		return err
	case c.state == absent:
		return fmt.Errorf("found %+v, which is absent", got)
	case c.state == foreign:
		return nil
	}
	image, err := c.target.Image(got)
	if err != nil {
		return fmt.Errorf("found %+v, of which the codec says %w", got, err)
	}
	if !same(reflect.ValueOf(image), reflect.ValueOf(c.want)) {
		return fmt.Errorf("found %+v; want %+v", image, c.want)
	}
	c.sum.Read++
	return nil
}

// all reads the record together with the one beside it, by a batch and a scan.
func (c *judged[T]) all(sound bool) error {
	values, err := c.stores[0].GetMulti(c.ctx, []string{c.key, c.beside})
	var single driver.KeyErrors
	if err != nil && (!errors.As(err, &single) || c.state != foreign) {
		return fmt.Errorf("by GetMulti: %w", err)
	}
	if _, ok := values[c.beside]; ok != sound {
		return fmt.Errorf("by GetMulti finds the sound record: %v; want %v (%v)", ok, sound, err)
	}
	if v, ok := values[c.key]; c.state == ours {
		if !ok {
			return fmt.Errorf("by GetMulti does not find the record")
		}
		if err := c.is(v, nil); err != nil {
			return fmt.Errorf("by GetMulti: %w", err)
		}
	}
	scanner, ok := driver.As[driver.Scanner](c.driver)
	if !ok {
		return nil
	}
	segments, err := scanner.Segments(c.ctx, 1)
	if err != nil {
		return fmt.Errorf("by Segments: %w", err)
	}
	found := make(map[string]bool)
	for _, at := range segments {
		for at != "" {
			page, err := scanner.Scan(c.ctx, at, 100)
			if err != nil {
				return fmt.Errorf("by Scan: %w", err)
			}
			for _, r := range page.Records {
				found[r.Key] = true
				if err := c.scanned(r); err != nil {
					return fmt.Errorf("by Scan: %w", err)
				}
			}
			at = page.Next
		}
	}
	if sound && !found[c.beside] || c.state == ours && !found[c.key] {
		return fmt.Errorf("by Scan: it finds %v", found)
	}
	return nil
}

// scanned compares what a scan says of a record with what a read and a touch say.
func (c *judged[T]) scanned(r driver.Scanned) error {
	e, err := c.driver.Get(c.ctx, r.Key)
	switch {
	case r.Problem != nil && r.Key == c.beside:
		return fmt.Errorf("the sound record has the problem %w", r.Problem)
	case r.Problem != nil && err == nil:
		return fmt.Errorf("a record that reads accept has the problem %w", r.Problem)
	case r.Problem != nil:
		return nil
	case err == nil && c.target.Earlier && r.ExpiresAt > 0 && r.ExpiresAt < e.ExpiresAt && r.CreatedAt == e.CreatedAt:
	case err == nil && e.Life != r.Life:
		return fmt.Errorf("the life is %+v; a read finds %+v", r.Life, e.Life)
	}
	// As Adopt does, which reads again after a conflict.
	now := driver.Ceil(c.target.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}
	if r.CreatedAt != 0 {
		life.CreatedAt = r.CreatedAt
	}
	if _, err := c.driver.Touch(c.ctx, r.Key, r.Meta, life, now); r.Alive(now) && err != nil && !errors.Is(err, driver.ErrConflict) {
		return fmt.Errorf("a touch of a record without a problem: %w", err)
	}
	return nil
}
