package touches

import (
	"context"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// carry is the life that a save is to put back which goes on without its caller.
type carry struct {
	key     string
	life    driver.Life
	wrote   uint64 // the memo's clock after the value was written
	read    bool   // the record has been read, so that there is a touch
	deleted bool   // a record of key may have been deleted, perhaps this one: life is not to be put back
	over    bool   // this one has been deleted for good, or saved anew
}

// Wrote ends what goes on for earlier saves of key, unless ctx's transaction may be rolled back, for the value has been
// written anew by one that knows what they were to put back. It returns the memo's clock after that.
func (t *Touches) Wrote(ctx context.Context, key string) uint64 {
	t.lock()
	defer t.unlock()
	for _, c := range t.carries {
		c.over = c.over || c.key == key && !driver.MayUndo(ctx)
	}
	return t.Memo.Clock()
}

// mostCarries bounds the saves that go on.
const mostCarries = 64

// GoOn lets a save that has written key's value, before the memo's clock was wrote, go on without its caller, for at most
// Timeout: f is to read the record and put life back. read, called after that read, reports whether a record of key may have
// been deleted since, or why nothing is to be done any more. An error of f counts as a touch that failed, unless it has
// touched. Close and Flush wait for f. GoOn reports false if as many go on as may, or Close has given up.
func (t *Touches) GoOn(ctx context.Context, key string, life driver.Life, wrote uint64, f func(ctx context.Context, read func() (deleted bool, err error)) (touched bool, err error)) bool {
	t.lock()
	defer t.unlock()
	if t.halted {
		t.givenUp++
	}
	if t.halted || len(t.carries) >= mostCarries {
		return false
	}
	c := &carry{key: strings.Clone(key), life: life, wrote: wrote} // key may be part of a long string
	t.carries = append(t.carries, c)
	go t.carry(ctx, c, f)
	return true
}

func (t *Touches) carry(ctx context.Context, c *carry, f func(context.Context, func() (deleted bool, err error)) (touched bool, err error)) {
	touched, err := false, ErrExited
	defer func() {
		t.lock()
		t.carries = slices.DeleteFunc(t.carries, func(o *carry) bool { return o == c })
		switch {
		case c.over:
			err = nil // a later save has its own touch, or there is no record
		case err != nil && !touched:
			if t.gaveUp && !c.read {
				err = ErrClosed
			}
			t.fail(ctx, c.key, err)
		}
		t.flushed(func(f *flush) bool { return slices.Contains(f.carries, c) }, err != nil, err)
		t.unlock()
	}()
	goesOn, cancel := t.UntilClosed(context.WithoutCancel(ctx))
	defer cancel()
	goesOn, end := context.WithTimeout(goesOn, t.Timeout)
	defer end()
	touched, err = f(goesOn, func() (deleted bool, err error) {
		t.lock()
		defer t.unlock()
		if t.gaveUp { // Close has said so
			return false, ErrClosed
		}
		if c.read = true; c.over {
			err = driver.ErrNotFound
		}
		return c.deleted, err
	})
}

// unread is how many saves go on that have no touch yet.
func (t *Touches) unread() (n int) {
	for _, c := range t.carries {
		if !c.read && !c.over {
			n++
		}
	}
	return n
}
