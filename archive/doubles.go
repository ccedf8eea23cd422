package archive

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// mendedName is a file that exists once Compact has searched all days for lives that two days have.
//
// Earlier versions could write a life to two days, because they derived the day of death
// from the caller's policy.
const mendedName = "_days.json"

// mendRows bounds the lives that are compared at once, and with them the memory used.
var mendRows int64 = 1 << 20

// mended reports whether mend has finished before.
func (c *compactor) mended(ctx context.Context) (bool, error) {
	_, err := readAll(ctx, c.bucket, mendedName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// mend keeps each life in one day only, that of its latest ExpiredAt.
func (c *compactor) mend(ctx context.Context) error {
	rows, parts := int64(0), int64(1)
	for part := int64(0); part < parts; part++ {
		all, err := c.catalog.manifests(ctx, Span{To: Quarantine - 1})
		if err != nil {
			return err
		}
		if part == 0 { // other parts later would leave out lives
			for _, m := range all {
				rows += m.Rows()
			}
			parts += rows / mendRows
		}
		extra, err := c.doubles(ctx, all, func(life lifeHash) bool {
			return binary.BigEndian.Uint64(life[:])%uint64(parts) == uint64(part)
		})
		if err != nil {
			return err
		}
		for _, d := range slices.Sorted(maps.Keys(extra)) {
			if err := c.leaveOut(ctx, d, extra[d]); err != nil {
				return err
			}
		}
	}
	return c.bucket.Put(ctx, mendedName, []byte(`{"version":1}`))
}

// doubles returns, by day, the chosen lives that another day has with a later ExpiredAt.
func (c *compactor) doubles(ctx context.Context, all []Manifest, chosen func(lifeHash) bool) (map[Day]map[lifeHash]bool, error) {
	type seen struct {
		day               Day
		expired, archived driver.Instant
	}
	last := map[lifeHash]seen{}
	extra := map[Day]map[lifeHash]bool{}
	for _, m := range all {
		if m.err != nil {
			return nil, m.err
		}
		for _, f := range m.Files {
			for a, err := range identities(ctx, c.bucket, f) {
				if err != nil {
					return nil, err
				}
				life := a.identity().hash()
				if !chosen(life) {
					continue
				}
				now := seen{m.Day, a.ExpiredAt, a.ArchivedAt}
				was, twice := last[life]
				if twice && cmp.Or(cmp.Compare(was.expired, now.expired), cmp.Compare(was.archived, now.archived)) > 0 {
					was, now = now, was
				}
				last[life] = now
				if !twice || was.day == now.day {
					continue
				}
				if extra[was.day] == nil {
					extra[was.day] = map[lifeHash]bool{}
				}
				extra[was.day][life] = true
			}
		}
	}
	return extra, nil
}

// leaveOut rewrites the files of a day that hold any of lives, without those lives.
func (c *compactor) leaveOut(ctx context.Context, d Day, lives map[lifeHash]bool) error {
	left := map[string]bool{}
	for tries := 0; tries < attempts; {
		m, err := c.catalog.manifest(ctx, d)
		if err == nil {
			err = m.err
		}
		if err != nil {
			return err
		}
		if err := sweep(ctx, c.bucket, &m); err != nil {
			return err
		}
		f, err := c.holding(ctx, &m, lives)
		if err == nil && f == nil {
			return nil
		}
		var columns map[string]ColumnType
		if err == nil {
			columns, _, err = c.examine(ctx, []File{*f}, left)
		}
		if err == nil {
			err = c.merge(ctx, &m, []File{*f}, columns, left, func(a *Archived) (bool, error) { return !lives[a.identity().hash()], nil })
		}
		switch {
		case gone(err), errors.Is(err, errOvertaken):
			tries++
		case err != nil:
			return err
		}
	}
	return errOvertaken
}

// holding returns the first file of m that has any of lives, nil if none does.
func (c *compactor) holding(ctx context.Context, m *Manifest, lives map[lifeHash]bool) (*File, error) {
	for _, f := range m.Files {
		for a, err := range identities(ctx, c.bucket, f) {
			if err != nil {
				return nil, err
			}
			if lives[a.identity().hash()] {
				return &f, nil
			}
		}
	}
	return nil, nil
}
