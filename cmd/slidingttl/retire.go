package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func (a *app) retire() *cobra.Command {
	var write writeFlags
	var list string
	var o upkeep.RetireOptions
	c := &cobra.Command{
		Use:   "retire STORE [KEY]",
		Short: "End the lives of records by key, list or prefix, for every process, and delete none",
		Long: `Ends the lives of records: of a key, of a list of keys or of a prefix, for every process, whatever the
policy. The expiry of each becomes now less --max-skew. It deletes nothing: retention and archives see
a death like any other; harvest needs the same --max-skew, or a larger one. Keys are those of the SDK,
without the prefix of a store.

Records of middleware/session and its indexes are left alone unless --kinds names them.`,
		Example: `  slidingttl retire "redis://cache1?prefix=link:" --keys stolen.txt --apply`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if list != "" {
				if write.keys, err = a.storeKeysIn("--keys", list); err != nil {
					return err
				}
			}
			write.keys = append(write.keys, args[1:]...)
			if (len(write.keys) > 0) == (write.Prefix != "") {
				return fmt.Errorf("%w: must have a KEY or --keys with at least one, or else a --prefix", errUsage)
			}
			what := fmt.Sprintf("%d keys", len(write.keys))
			if write.Prefix != "" {
				what = fmt.Sprintf("all keys that begin with %q", write.Prefix)
			}
			if write.MaxSkew >= harvestGrace/2 {
				say(a.err, fmt.Sprintf("--max-skew is %v: every harvest of this store, also an earlier one, needs --max-skew %[1]v and a --grace of more than twice that; else these deaths may reach no archive", write.MaxSkew))
			}
			w := work{uri: args[0], pace: &write.paceFlags}
			w.ask = fmt.Sprintf("About to END the lives of the records of %s: %s.", args[0], what)
			return over(a, c, w, func(s *store) (*upkeep.Report, error) {
				o.WriteOptions = write.options()
				return upkeep.Retire(c.Context(), s.walked, &o)
			})
		},
	}
	write.flags(c)
	f := c.Flags()
	f.StringVar(&list, "keys", "", "the keys in this `file`, one a line, or as --errors names them; - is the standard input")
	write.MaxSkew = time.Minute
	f.Var((*period)(&write.MaxSkew), "max-skew", "how far apart the clocks of the processes that use the records may be")
	return c
}

// keysIn returns the keys of an archive in the file at path, or the standard input.
func (a *app) keysIn(flag, path string) ([]string, error) {
	content, err := a.contentOf(flag, path)
	if err != nil {
		return nil, err
	}
	return keytext.Read(bytes.NewReader(content))
}

// storeKeysIn is keysIn for keys of a store: there, base64: is part of the key.
func (a *app) storeKeysIn(flag, path string) ([]string, error) {
	content, err := a.contentOf(flag, path)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		if key := strings.TrimRight(line, "\r\n"); strings.HasPrefix(key, "base64:") {
			line = strconv.Quote(key) + "\n"
		}
		lines = append(lines, line)
	}
	return keytext.Read(strings.NewReader(strings.Join(lines, "")))
}

func (a *app) contentOf(flag, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if path == "-" {
		content, err = io.ReadAll(a.in)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errUsage, flag, err)
	}
	return content, nil
}

// keyOf returns the key that an argument stands for: itself, or what an archive writes as base64:.
func keyOf(argument string) (string, error) {
	if !strings.HasPrefix(argument, "base64:") {
		return argument, nil
	}
	keys, err := keytext.Read(strings.NewReader(argument))
	if err != nil || len(keys) != 1 {
		return "", fmt.Errorf("%w: KEY: %w", errUsage, cmp.Or(err, errUsage))
	}
	return keys[0], nil
}
