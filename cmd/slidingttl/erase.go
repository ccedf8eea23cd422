package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// erasure is what was done for the erasure of a person, in stores and archives. It has the keys that
// were asked for, and not those that a prefix found.
type erasure struct {
	Applied  bool            `json:"applied"` // else it was a dry run
	Began    time.Time       `json:"began"`
	Ended    time.Time       `json:"ended,omitzero"` // zero: not yet
	Asked    []archive.Asked `json:"asked"`          // and how many records the stores held of it
	Stores   []erased        `json:"stores,omitempty"`
	Archives []forgotten     `json:"archives"`
	Digest   string          `json:"digest"` // SHA-256 of this as JSON without spaces, with an empty digest
}

// erased is what was done in a store.
type erased struct {
	Name     string          `json:"store"`
	Identity identity        `json:"identity"`
	Done     bool            `json:"done"`
	Report   *upkeep.Report  `json:"report"`
	Asked    []archive.Asked `json:"asked"` // and what it held of it
	Keeps    []string        `json:"keeps"` // what may hold it for longer
}

// notBegun is the report of a store that is not gone through yet.
func notBegun() *upkeep.Report {
	r := new(upkeep.Report)
	if err := json.Unmarshal([]byte(`{"records":0,"cost":0,"seconds":0,"done":false,"runs":0,"applied":false,"erased":0,"ended":0,"write_units":0,"vanished":0,"locked":0,"lost_races":0,"kept":0}`), r); err != nil {
		panic(err) // cannot happen
	}
	return r
}

// forgotten is what was done in an archive.
type forgotten struct {
	URI    string          `json:"archive"`
	Done   bool            `json:"done"`
	Report *archive.Report `json:"report"` // nil: not begun
	Keeps  []string        `json:"keeps"`
}

// digest returns the digest that e must have.
func (e erasure) digest() string {
	e.Digest = ""
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot happen: it was read from JSON, or will be
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

// found returns how many records the stores and archives held, or hold.
func (e *erasure) found() (n int64) {
	for _, s := range e.Stores {
		n += s.Report.Counts["erased"] + s.Report.Counts["ended"] + s.Report.Counts["later"]
	}
	for _, a := range e.Archives {
		if a.Report == nil {
			continue
		}
		n += a.Report.Records + a.Report.Hidden + a.Report.Locked
	}
	return n
}

// String is e as text.
func (e *erasure) String() string {
	var lines []string
	for _, s := range e.Stores {
		n, done := int64(0), "would be erased, a dry run"
		for _, a := range s.Asked {
			n += a.Records
		}
		if e.Applied {
			done = "erased"
		}
		lines = append(lines, fmt.Sprintf("%s: %d records %s, and %d lives beside records; %d looked at", s.Name, n, done, s.Report.Counts["ended"], s.Report.Records+s.Report.Passed))
		if others := s.Report.Counts["others"]; others > 0 {
			lines = append(lines, fmt.Sprintf("  %d of these keys hold no record but another type, and stay", others))
		}
		if e.Applied {
			lines = append(lines, "  may still be in: "+strings.Join(s.Keeps, "; "))
		}
	}
	for _, a := range e.Archives {
		if len(e.Archives) > 1 {
			lines = append(lines, a.URI)
		}
		if a.Report == nil {
			lines = append(lines, "not begun")
			continue
		}
		lines = append(lines, a.Report.String())
	}
	return strings.Join(lines, "\n")
}

// eraser erases, or checks what was erased.
type eraser struct {
	*app
	w                                writeFlags
	prefix, list, where, path, check string
	archives                         []string
	had                              map[string]int // days of the archives, by the report to check

	mu   sync.Mutex // held to use what follows while several stores are gone through
	doc  *erasure
	seen map[string]map[string]bool // the keys found, by store
	log  *os.File                   // of the same; nil: none
}

func (e *eraser) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&e.prefix, "prefix", "", "all keys that begin with this")
	f.StringVar(&e.list, "keys", "", "the keys in this `file`, one a line; - is the standard input")
	f.BoolVar(&e.w.apply, "apply", false, "remove the records; without it nothing is removed")
	f.BoolVar(&e.w.yes, "yes", false, "do not ask before removing")
	f.StringVar(&e.path, "report", "", "`file` for the report as JSON, from which the same command goes on after a kill; it holds keys, and only its owner reads it")
	f.StringVar(&e.check, "check", "", "prove the report in this `file` again: its digest, and that there is nothing of what it asked for; removes nothing")
	c.MarkFlagsMutuallyExclusive("check", "apply")
	c.MarkFlagsMutuallyExclusive("check", "report")
}

func (a *app) erase() *cobra.Command {
	e := eraser{app: a}
	c := &cobra.Command{
		Use:   "erase [KEY]",
		Short: "Erase a person's records from all stores of --config, and from their archives; a dry run unless --apply is given",
		Long: `Deletes records of a key, of a list of keys or of a prefix, for the right to erasure, whatever their
state: in all stores of --config side by side, in each by --rate and --writes, then in each --archive.
The keys are those of the SDK, without the prefix of a store. It rewrites the files of a SQLite database
and of a Redis that may still hold them.

--report FILE has what was asked for, what was found of it and where, what may still hold it outside of
this command's reach, and a digest. After a kill the same command goes on. --check FILE proves the
report again, at any time. Values of other keys that mention the person are not looked into.`,
		Example: `  slidingttl erase --config slidingttl.json --prefix user:42: --archive s3://links-archive/dead/ --report 42.json --apply`,
		RunE: func(c *cobra.Command, args []string) error {
			if a.config == "" {
				return fmt.Errorf("%w: the stores are those of the file of --config or %s", errUsage, configFrom)
			}
			stores, err := readSettings(a.config)
			if err != nil {
				return err
			}
			if len(stores) == 0 {
				return fmt.Errorf("%w: --config %s names no stores", errUsage, a.config)
			}
			if e.w.apply && e.path == "" {
				return fmt.Errorf("%w: --apply needs a --report", errUsage)
			}
			return e.run(c, args, stores)
		},
	}
	e.w.paceFlags.rates(c)
	_ = c.Flags().MarkHidden("layout") // that of each store is in --config
	c.Flags().Float64Var(&e.w.Limits.Writes, "writes", 500, "writes tried in a second, at most (0: no limit)")
	c.Flags().BoolVar(&e.w.sameStore, "same-store", false, "go on, or check, though a store has another identity than in the report: it was restored, or it is a Redis that restarted")
	c.Flags().BoolVar(&e.w.unchecked, "unchecked", false, "write though a check of the store finds something wrong")
	e.flags(c)
	c.Flags().StringArrayVar(&e.archives, "archive", nil, "an `archive` of these stores; may be repeated")
	return c
}

// run erases from stores and e.archives.
func (e *eraser) run(c *cobra.Command, args []string, stores map[string]settings) error {
	if e.path != "" {
		unlock, err := lock("--report", e.path)
		if err != nil {
			return err
		}
		defer unlock()
	}
	what, err := e.begin(c, args, stores)
	if err != nil {
		return err
	}
	if what.Column != "" && len(stores) > 0 {
		return fmt.Errorf("%w: records of stores are erased by keys or a prefix", errUsage)
	}
	names := slices.Sorted(maps.Keys(stores))
	if err := e.agreed(c.Context(), &e.w.paceFlags, fmt.Sprintf("About to REMOVE records from %s, for ever.", strings.Join(append(names, e.archives...), ", "))); err != nil {
		return err
	}
	if err := e.openLog(); err != nil {
		return err
	}
	defer func() { _ = e.log.Close() }()
	for _, name := range names {
		if e.of(name) == nil {
			e.doc.Stores = append(e.doc.Stores, erased{Name: name, Report: notBegun()})
		}
	}
	for _, uri := range e.archives {
		if !slices.ContainsFunc(e.doc.Archives, func(f forgotten) bool { return f.URI == uri }) {
			e.doc.Archives = append(e.doc.Archives, forgotten{URI: uri, Keeps: []string{"checkpoints of sources that have not ended, replicas, and backups"}})
		}
	}
	if err := e.save(); err != nil { // before a record is removed: what a run has named, the next one names too
		return err
	}
	failed := make([]error, len(names))
	var walks sync.WaitGroup
	for i, name := range names {
		walks.Go(func() {
			if err := e.store(c.Context(), e.of(name), stores[name], &what); err != nil {
				failed[i] = fmt.Errorf("%s: %w", name, err)
			}
		})
		if e.w.metrics != "" {
			walks.Wait() // the address is that of one walk
		}
	}
	walks.Wait()
	left := errors.Join(failed...) != nil
	for i := range e.doc.Archives {
		if err := e.archive(c.Context(), &e.doc.Archives[i], what, left); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", e.doc.Archives[i].URI, err))
		}
	}
	if errors.Join(failed...) == nil {
		e.doc.Ended = time.Now().UTC()
	}
	for i := range e.doc.Asked {
		for _, s := range e.doc.Stores {
			if i < len(s.Asked) {
				e.doc.Asked[i].Records += s.Asked[i].Records
			}
		}
	}
	e.doc.Digest = e.doc.digest()
	failed = append(failed, e.save())
	if len(e.doc.Stores)+len(e.doc.Archives) > 0 {
		failed = append(failed, e.print(e.doc))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if e.log != nil {
		return os.Remove(e.log.Name())
	}
	if n := e.doc.found(); e.check != "" && n > 0 {
		return fmt.Errorf("%d records are there of what was erased, by %s: erase them again", n, e.check)
	}
	return nil
}

// of returns what is done in a store, nil for none of the report.
func (e *eraser) of(name string) *erased {
	for i := range e.doc.Stores {
		if s := &e.doc.Stores[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// begin returns what is asked for, and makes the report, or reads the one to check or to go on with.
func (e *eraser) begin(c *cobra.Command, args []string, stores map[string]settings) (what archive.Selection, err error) {
	for i, uri := range e.archives {
		if !strings.Contains(uri, "://") {
			if e.archives[i], err = filepath.Abs(uri); err != nil {
				return what, err
			}
		}
	}
	if e.check != "" {
		for _, name := range []string{"prefix", "keys", "where", "archive"} {
			if f := c.Flags().Lookup(name); f != nil && f.Changed {
				return what, fmt.Errorf("%w: --check asks for what its report asks for: must be without --%s", errUsage, name)
			}
		}
		if len(args) > 0 {
			return what, fmt.Errorf("%w: --check asks for what its report asks for: must be without a KEY", errUsage)
		}
		old, err := readErasure(e.check)
		if err != nil {
			return what, err
		}
		switch {
		case !old.Applied:
			return what, fmt.Errorf("%w: --check %s: the report is of a dry run, which removes nothing", errUsage, e.check)
		case old.Ended.IsZero():
			return what, fmt.Errorf("%w: --check %s: the report is of a run that has not ended: run it again", errUsage, e.check)
		}
		of := make(map[string]bool)
		e.doc = &erasure{Began: time.Now().UTC()}
		for _, s := range old.Stores {
			of[s.Name] = true
			if stores != nil {
				e.doc.Stores = append(e.doc.Stores, erased{Name: s.Name, Identity: s.Identity, Report: notBegun()})
			}
			if _, ok := stores[s.Name]; !ok && stores != nil {
				return what, fmt.Errorf("%w: --check %s: there is no store %q in --config", errUsage, e.check, s.Name)
			}
		}
		maps.DeleteFunc(stores, func(name string, _ settings) bool { return !of[name] })
		if stores != nil {
			e.archives = nil
		}
		e.had = make(map[string]int)
		for _, a := range old.Archives {
			if a.Report != nil {
				e.had[strings.TrimRight(a.URI, "/")] = a.Report.Days
			}
			if stores != nil {
				e.archives = append(e.archives, a.URI)
			} else if strings.TrimRight(a.URI, "/") == strings.TrimRight(e.archives[0], "/") {
				of[a.URI] = true
			}
		}
		if stores == nil && len(of) == len(old.Stores) {
			return what, fmt.Errorf("%w: --check %s: the report is of other archives than %s", errUsage, e.check, e.archives[0])
		}
		what, err = selectionOf(old.Asked)
		e.doc.Asked = what.Asked()
		return what, err
	}
	if e.list != "" {
		if what.Keys, err = e.keysIn("--keys", e.list); err != nil {
			return what, err
		}
	}
	for _, argument := range args {
		key, err := keyOf(argument)
		if err != nil {
			return what, err
		}
		what.Keys = append(what.Keys, key)
	}
	what.Prefix = e.prefix
	if f := c.Flags().Lookup("where"); f != nil && f.Changed {
		column, value, ok := strings.Cut(e.where, "=")
		if !ok || column == "" || value == "" {
			return what, fmt.Errorf("%w: --where is %q: must have the form column=value, with a value", errUsage, column)
		}
		what.Column, what.Value = column, value
	}
	if err := what.Validate(); err != nil {
		return what, err
	}
	e.doc = &erasure{Applied: e.w.apply, Began: time.Now().UTC(), Asked: what.Asked()}
	if e.path == "" {
		return what, nil
	}
	if !e.w.apply {
		return what, fmt.Errorf("%w: --report is for --apply: --json prints that of a dry run", errUsage)
	}
	old, err := readErasure(e.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		for _, of := range []string{".keys", ".days", ".days~"} { // of another report of this name
			if err := os.Remove(e.path + of); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return what, err
			}
		}
		return what, e.save() // before a record is removed
	case err != nil:
		return what, err
	case !old.Ended.IsZero():
		return what, fmt.Errorf("%w: --report %s is done: --check proves it again", errUsage, e.path)
	}
	for i := range old.Asked {
		old.Asked[i].Found = archive.Found{}
	}
	if !reflect.DeepEqual(old.Asked, e.doc.Asked) {
		return what, fmt.Errorf("%w: --report %s asks for something else", errUsage, e.path)
	}
	for _, s := range old.Stores {
		if _, ok := stores[s.Name]; !ok {
			return what, fmt.Errorf("%w: --report %s: there is no store %q in --config", errUsage, e.path, s.Name)
		}
	}
	for _, a := range old.Archives {
		if !slices.Contains(e.archives, a.URI) {
			return what, fmt.Errorf("%w: --report %s is of the archive %s too: must be named", errUsage, e.path, a.URI)
		}
	}
	e.doc = old
	return what, nil
}

// selectionOf returns the Selection that asked for all, to ask again.
func selectionOf(all []archive.Asked) (s archive.Selection, err error) {
	decode := func(text string) string {
		key, failed := keytext.Decode(text)
		err = errors.Join(err, failed)
		return key
	}
	for _, a := range all {
		s.Prefix, s.Column, s.Value = decode(a.Prefix), a.Column, decode(a.Value)
		if a.Key != "" {
			s.Keys = append(s.Keys, decode(a.Key))
		}
	}
	return s, errors.Join(err, s.Validate())
}

// readErasure reads a report, which must have its digest and be as it was written or printed: who reads it
// must see what is checked.
func readErasure(path string) (*erasure, error) {
	content, err := os.ReadFile(path)
	var doc erasure
	if err == nil {
		err = json.Unmarshal(content, &doc)
	}
	var written, printed bytes.Buffer
	if err == nil {
		err = errors.Join(writeJSON(&written, doc), writeJSON(printable{&printed}, doc))
	}
	if err == nil && (doc.Digest != doc.digest() || !bytes.Equal(content, written.Bytes()) && !bytes.Equal(content, printed.Bytes())) {
		err = errors.New("it does not have its digest: it was changed")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the report %s: %w", errUsage, path, err)
	}
	return &doc, nil
}

func (e *eraser) save() error {
	if e.path == "" {
		return nil
	}
	e.doc.Digest = e.doc.digest()
	return put(e.path, func(w io.Writer) error { return writeJSON(w, e.doc) })
}

// openLog opens the file that has the keys found, each before its record is removed, until the report
// has their number; and reads what a killed run has written there.
func (e *eraser) openLog() (err error) {
	e.seen = make(map[string]map[string]bool)
	if e.path == "" {
		return nil
	}
	if e.log, err = os.OpenFile(e.path+".keys", os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return err
	}
	content, err := io.ReadAll(e.log)
	for line := range strings.Lines(string(content)) {
		var name, key string
		if _, err := fmt.Sscanf(line, "%q %q\n", &name, &key); err == nil { // else a kill cut it short
			e.see(name, key)
		}
	}
	if err == nil {
		_, err = e.log.WriteString("\n")
	}
	return err
}

func (e *eraser) see(name, key string) {
	if e.seen[name] == nil {
		e.seen[name] = make(map[string]bool)
	}
	e.seen[name][key] = true
}

// store erases from one store. Others may be under way.
func (e *eraser) store(ctx context.Context, to *erased, s settings, what *archive.Selection) error {
	w := e.w
	w.layout = s.Layout
	db, _, err := e.openChecked(ctx, &w.paceFlags, s.URI, 0)
	if err != nil {
		return err
	}
	defer db.close()
	if file := cmp.Or(e.path, e.check); file != "" {
		is, err := w.of(ctx, db)
		if err == nil && to.Identity.Records != "" {
			err = w.expect("the report "+file, to.Identity, is)
		}
		if err != nil {
			return err
		}
		is.Store = slices.Compact(slices.Sorted(slices.Values(append(is.Store, to.Identity.Store...))))
		e.mu.Lock()
		to.Identity = is
		e.mu.Unlock()
	}
	hide, err := e.show(ctx, &w.paceFlags, "erase "+to.Name, db)
	if err != nil {
		return err
	}
	o := upkeep.EraseOptions{WriteOptions: w.options()}
	o.Keys, o.Prefix = what.Keys, what.Prefix
	o.Found = func(keys []string) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		var lines strings.Builder
		for _, key := range keys {
			e.see(to.Name, key)
			fmt.Fprintf(&lines, "%q %q\n", to.Name, key)
		}
		if e.log == nil {
			return nil
		}
		_, err := e.log.WriteString(lines.String()) // a loss of power may cost its count, and no erasure
		return err
	}
	kept := make(map[string]bool)
	o.Kept = func(keys []string) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, key := range keys {
			kept[key] = true
		}
		return nil
	}
	r, err := upkeep.Erase(ctx, db.walked, &o)
	hide()
	e.mu.Lock()
	defer e.mu.Unlock()
	if r == nil {
		return err
	}
	n, was := r.Counts, to.Report.Counts
	n["erased"] += was["erased"] // no run goes on from a place: records may have been written, or restored, behind it
	if to.Done {
		n["ended"] += was["ended"]
	} else {
		n["ended"] = max(n["ended"], was["ended"]) // a run that failed may have counted the same lives
	}
	to.Done, to.Report, to.Asked, to.Keeps = false, r, what.Asked(), nil
	for i, key := range slices.Compact(slices.Sorted(slices.Values(what.Keys))) {
		if e.seen[to.Name][key] && !kept[key] {
			to.Asked[i].Records = 1
		}
	}
	if what.Prefix != "" {
		for key := range e.seen[to.Name] {
			if !kept[key] {
				to.Asked[0].Records++
			}
		}
	}
	if e.w.apply {
		to.Keeps = append(r.Left, kindOf(s.URI).keeps, "the memory of processes that use the store")
	}
	switch {
	case err == nil && r.Failed > 0:
		err = fmt.Errorf("%w: %d of them, because %v", errPartly, r.Failed, slices.Sorted(maps.Keys(r.Failures)))
	case err == nil && n["later"] > 0 && e.w.apply:
		err = fmt.Errorf("%w: of %d lives, for touches under way may need them: run this again in an hour", errPartly, n["later"])
	}
	if err != nil {
		return err
	}
	var found int64
	for _, a := range to.Asked {
		found += a.Records
	}
	n["erased"] = max(n["erased"], found) // a killed run has told only the keys
	to.Done = true
	return e.save()
}

// add sets the report of a, which has what an earlier one that came to its end has forgotten.
func (a *forgotten) add(r *archive.Report) {
	if was := a.Report; was != nil {
		r.Began = was.Began
		r.Files += was.Files
		r.Records += was.Records
		r.Hidden += was.Hidden
		for i := range min(len(r.Asked), len(was.Asked)) {
			now, was := &r.Asked[i], &was.Asked[i]
			now.Records += was.Records
			now.Hidden += was.Hidden
			if now.Days == nil {
				now.Days = make(map[archive.Day]int64)
			}
			for d, n := range was.Days {
				if was.Locked > 0 { // some of n stayed, and were found again
					n = max(0, n-now.Days[d])
				}
				now.Days[d] += n
			}
		}
	}
	a.Report = r
}

// archive erases from one archive, which is not done as long as a source may archive what is left in a
// store.
func (e *eraser) archive(ctx context.Context, to *forgotten, what archive.Selection, left bool) error {
	b, err := openArchive(ctx, to.URI)
	if err != nil {
		return err
	}
	last := map[string]*archive.Report{} // by archive: what killed runs have forgotten
	days := e.path + ".days"
	if e.path != "" && readJSON(days, &last) != nil {
		clear(last) // there is none, or a kill cut it short
	}
	o := archive.ForgetOptions{DryRun: !e.w.apply, Progress: e.days("forget"), Before: last[to.URI]}
	if e.path != "" {
		o.Save = func(r *archive.Report) error { // a loss of power may cost these counts, and no erasure
			last[to.URI] = r
			return saveDays(days, last)
		}
	}
	r, err := archive.Forget(ctx, b, what, &o)
	switch unknown := errors.Is(err, driver.ErrInvalid); {
	case r == nil || unknown && e.check == "":
		return err
	case unknown: // the column went with its last value
		err = nil
	}
	if had := e.had[strings.TrimRight(to.URI, "/")]; r.Days == 0 && had > 0 {
		err = errors.Join(err, fmt.Errorf("--check %s: %s has no day, and had %d: is it there?", e.check, to.URI, had))
	}
	to.add(r)
	to.Done = err == nil && !left
	if failed := e.save(); failed != nil {
		return errors.Join(err, failed)
	}
	if delete(last, to.URI); e.path != "" {
		err = errors.Join(err, saveDays(days, last))
	}
	return err
}

// saveDays writes the file of what was forgotten in archives that no report has yet.
func saveDays(path string, last map[string]*archive.Report) error {
	if len(last) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(last)
	if err == nil {
		err = os.WriteFile(path+"~", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+"~", path)
	}
	return err
}
