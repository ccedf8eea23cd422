package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func (a *app) undo() *cobra.Command {
	var write writeFlags
	c := &cobra.Command{
		Use:   "undo STORE FILE",
		Short: "Take back the adoption of records that were not touched since",
		Long: `Reverts the writes that adopt recorded in FILE with --undo: each record loses its created_at, and
gets its former expiry back. A record whose life has moved since is not changed. On Cosmos DB the
version that adopt gave to an item stays, and its ttl becomes the rest of the former one, or -1.`,
		Example: `  slidingttl undo "redis://cache1?prefix=session:" adopted.jsonl --apply`,
		RunE: func(c *cobra.Command, args []string) error {
			w := work{uri: args[0], pace: &write.paceFlags}
			w.ask = fmt.Sprintf("About to take back adoptions of records of %s, as recorded in %s.", args[0], args[1])
			return over(a, c, w, func(s *store) (*upkeep.Report, error) {
				f, err := os.Open(args[1])
				if err != nil {
					return nil, fmt.Errorf("%w: %w", errUsage, err)
				}
				defer func() { _ = f.Close() }()
				is, err := write.of(c.Context(), s)
				if err == nil {
					err = write.adopted(f, args[1], is)
				}
				if err != nil {
					return nil, err
				}
				o := write.options()
				return upkeep.Undo(c.Context(), s.walked, f, &o)
			})
		},
	}
	write.flags(c)
	return c
}

// adopted is the first line of a file for undo.
type adopted struct {
	Of identity `json:"adopted"`
}

// adopted returns an error if adopt did not write f, the file at path, for store.
func (p *paceFlags) adopted(f io.Reader, path string, store identity) error {
	var first adopted
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is no file that adopt wrote for undo: %w", errUsage, path, err)
	}
	return p.expect("the file for undo "+path, first.Of, store)
}

// keeper writes down what undo reads.
type keeper struct {
	mu     sync.Mutex // guards the rest
	f      *os.File
	synced time.Time
	failed error // of a line that may not be whole: nothing follows it
}

// keepChanges opens the file at path for what adopt changes of store.
func (p *paceFlags) keepChanges(path string, store identity) (*keeper, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: --undo: %w", errUsage, err)
	}
	k := &keeper{f: f}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() == 0:
		err = k.line(adopted{store})
	default:
		if err = p.adopted(f, path, store); err == nil {
			_, err = f.WriteString("\n") // a kill may have left half a line
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return k, nil
}

// line appends v. A line survives a kill once line has returned, and a loss of power a second
// later.
func (k *keeper) line(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		_, k.failed = k.f.Write(append(line, '\n'))
	}
	if k.failed == nil && time.Since(k.synced) > time.Second {
		k.synced, k.failed = time.Now(), k.f.Sync()
	}
	return k.failed
}

func (k *keeper) close() error { return errors.Join(k.f.Sync(), k.f.Close()) }
