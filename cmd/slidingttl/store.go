package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// walked is a driver that the operations of package upkeep go over.
type walked interface {
	upkeep.Store
	driver.RawReader
}

// store is a store of whatever values.
type store struct {
	walked
	// sessions is the driver for what middleware/session keeps in the store.
	sessions func() (driver.Driver[session.Record], error)
	close    func()
	about    func(context.Context) int64 // records that it holds, as it estimates; nil: it does not say
	ids      func(context.Context) ([]string, error)
	memory   func(ctx context.Context, keys int64) string // what adoption of so many needs; nil: no more than before
	name     string                                       // which of the store's records it has, for checkpoints
	title    string                                       // for a page
	*address
	notice string // what looking at it does, before it begins; empty: nothing
}

// kind is a kind of store.
type kind struct {
	schemes     []string
	form        string // of its URI
	params      parameters
	credentials string // where they come from, as advice
	adopts      string // what adoption does to values; empty: nothing
	keeps       string // what holds erased records for longer, outside of the command's reach
	open        func(ctx context.Context, a *address, l layout) (*store, error)
}

var kinds = []kind{couchbaseKind, cosmosKind, dynamodbKind, redisKind, postgresKind, mysqlKind, sqliteKind}

// layout is the content of the file with the names that a driver was given; nil: there is
// none.
type layout []byte

// into reads l into names, a pointer to a struct of those that a kind of store has.
func (l layout) into(names any) error {
	if l == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(l))
	d.DisallowUnknownFields()
	if err := cmp.Or(json.Unmarshal(l, new(json.RawMessage)), doubled(l), d.Decode(names)); err != nil {
		return fmt.Errorf("%w: --layout: %w", errUsage, err)
	}
	return nil
}

// choice is what the word chosen in a layout stands for, the zero T for the empty one.
func choice[T any](field, word string, words map[string]T) (T, error) {
	v, ok := words[word]
	if !ok && word != "" {
		return v, fmt.Errorf("%w: --layout: %s is %q: must be one of %s", errUsage, field, word, strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
	return v, nil
}

// target is the flags that name a store.
type target struct {
	layout string
	sizes  bool // a scan is to tell how large records are
}

func (t *target) flags(c *cobra.Command) {
	c.Flags().StringVar(&t.layout, "layout", "", "JSON `file` with the names that the driver was given")
	_ = c.MarkFlagFilename("layout", "json")
}

// open opens the store at uri, to write to it or only to look.
func (t *target) open(ctx context.Context, uri string, writes bool) (*store, error) {
	a, k, err := parseAddress(uri)
	if err != nil {
		return nil, err
	}
	a.writes, a.sizes = writes, t.sizes
	var l layout
	if t.layout != "" {
		if l, err = os.ReadFile(t.layout); err != nil {
			return nil, fmt.Errorf("%w: --layout: %w", errUsage, err)
		}
	}
	s, err := k.open(ctx, a, l)
	if errors.Is(err, errForm) {
		return nil, fmt.Errorf("%w: the store must have the form %s", errUsage, k.form)
	}
	if err != nil {
		return nil, err
	}
	s.name, s.title = recordsOf(a, l)+s.name, titleOf(a)
	return s, nil
}
