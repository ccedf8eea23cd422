package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// identity says which store a checkpoint or a file for undo is of, and which of its records.
type identity struct {
	// Records names the part of the store: a prefix, a database, a layout.
	Records string `json:"records"`

	// Store is what the store itself says that it is, whatever the way to it: an ARN, the oid of a
	// table. A Redis has several, of which a failover keeps some.
	Store []string `json:"store"`
}

// same reports whether both are of one store.
func (i identity) same(other identity) bool {
	return i.Records == other.Records && slices.ContainsFunc(i.Store, func(id string) bool { return slices.Contains(other.Store, id) })
}

func (i identity) String() string {
	return strings.Join(append(slices.Clone(i.Store), i.Records), ", ")
}

// kept is what a file of the command is of.
type kept struct {
	Of identity `json:"of"`
	upkeep.Checkpoint
}

// recordsOf names the records that a and l choose in a store.
func recordsOf(a *address, l layout) string {
	names := []string{a.Scheme}
	for _, name := range slices.Sorted(maps.Keys(a.own)) {
		if name != "socket" && name != "region" && name != "profile" && name != "consistent" {
			names = append(names, name+"="+a.own[name])
		}
	}
	if l != nil {
		names = append(names, fmt.Sprintf("layout %.4x", sha256.Sum256(l)))
	}
	return strings.Join(names, " ")
}

// titleOf names the store for a page.
func titleOf(a *address) string {
	u := *a.URL
	u.User = nil
	q := u.Query()
	for name, v := range a.own {
		q.Set(name, v)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// of returns the identity of s.
func (p *paceFlags) of(ctx context.Context, s *store) (identity, error) {
	ids, err := s.ids(ctx)
	if err != nil && !p.sameStore {
		return identity{}, fmt.Errorf("the store does not tell which it is, for the files of this run; --same-store goes without: %w", err)
	}
	return identity{s.name, ids}, nil
}

// identify sets the identity for checkpoints to come, and returns an error if the one to go on from
// is of another store.
func (p *paceFlags) identify(ctx context.Context, s *store) (err error) {
	if p.checkpoint == "" {
		return nil
	}
	if p.store, err = p.of(ctx, s); err != nil || p.Resume == nil {
		return err
	}
	err = p.expect("--checkpoint "+p.checkpoint, p.was, p.store)
	p.store.Store = slices.Compact(slices.Sorted(slices.Values(append(p.store.Store, p.was.Store...))))
	return err
}

// expect returns an error if a file, of the given flag, is of another store than s.
func (p *paceFlags) expect(file string, was, is identity) error {
	if p.sameStore || was.same(is) {
		return nil
	}
	return fmt.Errorf("%w: %s is of the store %q: must be of %q; if that is the same store, restored from a backup or a Redis that restarted, --same-store says so", errUsage, file, was, is)
}
