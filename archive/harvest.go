package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Harvest runs [upkeep.Harvest] on d and keeps its position in the archive. It continues a
// harvest that was interrupted, or begins it again if the store refuses the cursor; after a
// complete one it takes only what died since. So a timer can run it, on any machine. It misses lives that were deleted, or replaced by the
// next life of their key, between two runs. The name store tells stores with the same Source
// apart; under a new name everything is harvested again.
//
// opts.Bury must be g.Archive, or nil for a dry run. Harvest sets Resume, Save and Again, and Since
// if it is zero. If the position lies in the future, by a clock that was wrong then or is now, it
// returns an ErrClock: set Since.
func (g *Archiver) Harvest(ctx context.Context, store string, d upkeep.Harvested, p slidingttl.Policy, opts *upkeep.HarvestOptions) (*upkeep.Report, error) {
	o := driver.Given(opts)
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
	o.Again = append(slices.Clone(o.Again), at.Again...)
	var under upkeep.Report
	if at.Under != nil {
		if err := json.Unmarshal(at.Under.State, &under); err != nil {
			return nil, &CorruptError{File: checkpointPrefix + name, Err: err}
		}
	}
	if o.Since != 0 {
		o.Again = append(o.Again, under.Again...) // what an unfinished harvest could not read
	} else {
		now := g.Writer.opts.Now()
		if o.Now != nil {
			now = o.Now()
		}
		if until := max(at.Since, under.Until); until > g.Writer.latest(now) {
			return nil, clockError("the time up to which an earlier harvest came (set Since)", until.Time(), now)
		}
		o.Since = at.Since
		if o.Bury != nil {
			o.Resume = at.Under
		}
	}
	if o.Bury != nil {
		o.Save = func(c upkeep.Checkpoint) error {
			at := place{Since: o.Since, Again: o.Again, Under: &c}
			if c.Done() {
				var r upkeep.Report
				if err := json.Unmarshal(c.State, &r); err != nil {
					return err
				}
				at = place{Since: max(o.Since, r.Until), Again: r.Again} // max: a clock may have gone back
			}
			content, err := json.Marshal(at)
			if err != nil {
				return err
			}
			// If ctx has ended the harvest, its position must still be saved.
			err = g.Writer.SaveCheckpoint(context.WithoutCancel(ctx), name, content)
			if err == nil {
				g.harvested.Store(int64(at.Since))
			}
			return err
		}
	}
	r, err := upkeep.Harvest(ctx, d, p, &o)
	// The position was saved under other options, or the store has moved its records since.
	if bad, ok := errors.AsType[*driver.InvalidError](err); ok && o.Resume != nil && (bad.Field == "Options.Resume" || bad.Field == "cursor") {
		o.Resume = nil
		r, err = upkeep.Harvest(ctx, d, p, &o)
	}
	return r, err
}

// place is the saved position of a store's harvest.
type place struct {
	Since driver.Instant     `json:"since"`           // deaths before it are archived, but for those of Again
	Again []string           `json:"again,omitempty"` // hashes of keys that could not be read
	Under *upkeep.Checkpoint `json:"under,omitempty"` // position of an unfinished harvest, nil for none
}
