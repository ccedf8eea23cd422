package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Harvest is [upkeep.Harvest] of d that keeps its position in the archive. It continues a
// harvest that was interrupted; after a complete one it takes only what died since. So a
// timer can run it, on any machine. It cannot see what was deleted, or replaced by the next life
// of its key, since. The name store tells stores with the same Source apart;
// under a new name everything is harvested again.
//
// opts.Bury must be g.Bury, or nil for a dry run. Harvest sets Resume and Save, and Since
// if it is zero.
func (g *Grave) Harvest(ctx context.Context, store string, d upkeep.Harvested, p slidingttl.Policy, opts *upkeep.HarvestOptions) (*upkeep.HarvestReport, error) {
	var o upkeep.HarvestOptions
	if opts != nil {
		o = *opts
	}
	sum := sha256.Sum256([]byte(g.Source + "\x00" + store))
	name := "harvest-" + hex.EncodeToString(sum[:16])
	content, err := g.Writer.Checkpoint(ctx, name)
	if err != nil {
		return nil, err
	}
	var at place
	if content != nil {
		if err := json.Unmarshal(content, &at); err != nil {
			return nil, &CorruptError{File: checkpointPrefix + name, Err: err}
		}
	}
	g.harvested.Store(int64(at.Since))
	if o.Since == 0 {
		o.Since = at.Since
		if o.Bury != nil {
			o.Resume = at.Under
		}
	}
	if o.Bury != nil {
		o.Save = func(c upkeep.Checkpoint) error {
			at := place{Since: o.Since, Under: &c}
			if c.Done() {
				var r upkeep.HarvestReport
				if err := json.Unmarshal(c.State, &r); err != nil {
					return err
				}
				at = place{Since: max(o.Since, r.Until)} // a clock may have gone back
			}
			content, err := json.Marshal(at)
			if err != nil {
				return err
			}
			// The context may have ended what was under way, whose place counts.
			err = g.Writer.SaveCheckpoint(context.WithoutCancel(ctx), name, content)
			if err == nil {
				g.harvested.Store(int64(at.Since))
			}
			return err
		}
	}
	r, err := upkeep.Harvest(ctx, d, p, &o)
	if bad, ok := errors.AsType[*driver.InvalidError](err); ok && bad.Field == "Options.Resume" { // under other options
		o.Resume = nil
		r, err = upkeep.Harvest(ctx, d, p, &o)
	}
	return r, err
}

// place is where a harvest of a store is.
type place struct {
	Since driver.Instant     `json:"since"`           // what had died by then is archived
	Under *upkeep.Checkpoint `json:"under,omitempty"` // of the harvest under way, nil: there is none
}
