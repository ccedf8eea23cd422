package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// streams is where the command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	typed    bool       // in is a terminal
	asks     bool       // err is one too: questions are asked, progress is shown
	width    func() int // columns of err, zero if unknown; nil: unknown
}

func terminal(in, out, err *os.File) streams {
	typed := term.IsTerminal(int(in.Fd()))
	width := func() int {
		columns, _, _ := term.GetSize(int(err.Fd()))
		return columns
	}
	return streams{width: width, in: in, out: out, err: err, typed: typed, asks: typed && term.IsTerminal(int(err.Fd()))}
}

// app is what all commands share.
type app struct {
	streams
	json   bool
	html   string // where the report goes as a page, too; empty: nowhere
	config string // the file of settings; empty: none
	began  bool   // the command line was understood
}

// long has a place for the stores.
const long = `Looks into a store whose records slide, and brings them under a policy.

A store is a URI, or a name in the file of --config. What a driver was told of names is in a JSON file, see README.md:
%s

What writes is a dry run unless --apply is given, asks before it writes where there is a
terminal, and can be stopped at any time and gone on with (--checkpoint, --resume).

Exit codes:

  0  done
  1  the store, or the machine, failed
  2  the command line, a file or a policy is wrong
  3  stopped by a signal
  4  inspect: there is no such record, or it is not alive; archive find: there is none
  5  done, but for records that could not be read or written; --errors names them`

// stores is how each kind of store is named, for the help.
func stores() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "\n  %s\n      %s", k.form, k.credentials)
	}
	return b.String()
}

// newRoot returns the command, and what its subcommands share.
func newRoot(s streams) (*app, *cobra.Command) {
	a := &app{streams: s}
	a.out = printable{s.out}
	version := "of no release"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(strings.Trim(info.Main.Version, "()"), version)
	}
	root := &cobra.Command{
		Version:       version,
		Use:           "slidingttl",
		Short:         "Looks into a store whose records slide, and brings them under a policy",
		Long:          fmt.Sprintf(long, stores()),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&a.config, "config", os.Getenv(configFrom), "JSON `file` that names stores and policies, so that a STORE is a name in it; flags win over it")
	_ = root.MarkPersistentFlagFilename("config", "json")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print reports as JSON")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.AddCommand(a.inspect(), a.audit(), a.list(), a.dying(), a.diff(), a.plan(), a.adopt(), a.undo(), a.mend(), a.reap(), a.retire(), a.sessions(), a.harvest(), a.erase(), a.archive(), a.schema())
	a.watch(root)
	return a, root
}

// watch makes all commands below c check the number of their arguments, and set a.began.
func (a *app) watch(c *cobra.Command) {
	for _, c := range c.Commands() {
		a.watch(c)
		if work := c.RunE; work != nil {
			names := strings.Fields(c.Use)[1:]
			c.Args = func(c *cobra.Command, args []string) error {
				if len(args) > len(names) || len(args) < len(names)-strings.Count(c.Use, "[") {
					return fmt.Errorf("%w: there are %d arguments; want %v", errUsage, len(args), names)
				}
				return a.apply(c, args)
			}
			c.RunE = func(c *cobra.Command, args []string) error {
				a.began = true
				if err := cmp.Or(given(c.Flags(), names, args), a.canDraw()); err != nil {
					return err
				}
				return work(c, args)
			}
		}
	}
}

// given returns an error for an argument or a flag that is given as empty, which would mean more than any other: an
// unset variable of a script; and for a file to write that is named for something else, too.
func given(flags *pflag.FlagSet, names, args []string) (err error) {
	files := make(map[string]string) // what has them
	for i, arg := range args {
		if arg == "" {
			return fmt.Errorf("%w: argument %d is empty", errUsage, i+1)
		} else if names[i] == "FILE" {
			files[fullPath(arg)] = arg
		}
	}
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if all, ok := f.Value.(pflag.SliceValue); ok {
			values = all.GetSlice()
		}
		if len(values) == 0 || slices.Contains(values, "") {
			err = cmp.Or(err, fmt.Errorf("%w: --%s is empty", errUsage, f.Name))
		}
	})
	for _, name := range []string{"config", "layout", "policy-file", "from-policy-file", "to-policy-file", "policy-for", "only", "keys", "check", "checkpoint", "undo", "errors", "html", "report", "since"} {
		f := flags.Lookup(name)
		if f == nil || f.Value.Type() != "string" || f.Value.String() == "" || f.Value.String() == "-" {
			continue
		}
		for _, suffix := range append([]string{""}, written[name]...) {
			file := fullPath(f.Value.String() + suffix)
			appends := name == "errors" && (files[file] == "--only" || files[file] == "--keys") // which are read before
			if other := files[file]; other != "" && written[name] != nil && !appends {
				err = cmp.Or(err, fmt.Errorf("%w: --%s %s is the file of %s, too", errUsage, name, f.Value, other))
			}
			files[file] = "--" + name
		}
	}
	return err
}

// written are the flags of files that are written, and the ends of the names of others beside them.
var written = map[string][]string{
	"checkpoint": {".lock"}, "report": {".keys", ".days", ".days~", ".lock"}, "undo": {}, "errors": {}, "html": {}, "since": {},
}

// fullPath returns path without links, as far as it is there.
func fullPath(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	for range 40 { // a link may lead to what is not there yet
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// print prints a report.
func (a *app) print(report fmt.Stringer) error { return a.summary(report, "%s", report) }

// summary prints a report as JSON, or as lines of text.
func (a *app) summary(report any, format string, args ...any) error {
	if !a.json {
		text := fmt.Sprintf(format+"\n", args...)
		_, err := io.WriteString(a.out, strings.TrimPrefix(text, "\n")) // an empty one has no line
		return err
	}
	return writeJSON(a.out, report)
}

func writeJSON(w io.Writer, what any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(what)
}

// printable is a writer that escapes what a terminal acts on, such as control codes in a stored value. JSON
// keeps its meaning.
type printable struct{ w io.Writer }

// Write implements io.Writer. A rune must not be parted between two calls.
func (p printable) Write(b []byte) (int, error) {
	text := make([]byte, 0, len(b))
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			text = fmt.Appendf(text, `\x%02x`, rest[0])
		case r == '\n', r == '\t', unicode.IsGraphic(r):
			text = append(text, rest[:n]...)
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				text = fmt.Appendf(text, `\u%04x`, u)
			}
		}
		rest = rest[n:]
	}
	_, err := p.w.Write(text)
	return len(b), err
}
