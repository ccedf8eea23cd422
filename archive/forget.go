package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ForgetOptions adjusts Forget. The zero value, and nil, mean the defaults.
type ForgetOptions struct {
	// DryRun writes and removes nothing: the report says what Forget would do.
	DryRun bool

	Progress func(next Day, done, days int) // called for each day before it is read

	// Save gets the report before the files of a day are replaced, as if they were. Its error
	// ends the call.
	Save func(*Report) error

	// Before is the last report that Save got, if a crash ended the call of which it is, with the
	// same Selection. The new report has what that one found too.
	Before *Report
}

// ErrLeft says that a source archived, or a Repair restored, selected records while Forget ran. Run Forget
// again.
var ErrLeft = errors.New("a source archived more of these records meanwhile, or a repair restored some: run forget again")

// Asked is a key, a prefix or a value that Forget was asked for, and what it found of it. Key, Prefix
// and Value are in the form of the column key: base64: comes before what is not text.
type Asked struct {
	Key    string `json:"key,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Column string `json:"column,omitempty"`
	Value  string `json:"value,omitempty"`
	Found
	Days map[Day]int64 `json:"days,omitempty"` // the same records by day; quarantine is one
}

// Found counts selected records. A life in two files counts twice.
type Found struct {
	Records int64 `json:"records"`          // forgotten
	Hidden  int64 `json:"hidden,omitempty"` // removed with files that no reader sees: left by a crash, or behind a delete marker
	Locked  int64 `json:"locked,omitempty"` // in files that are locked, and stay
}

var forgetting = operation{"dry_run began ended asked days files records hidden? locked? no_value keyless? left? problems?", func(r *Report) string {
	text := fmt.Sprintf("%d records forgotten; %d files rewritten, %d days read", r.Records, r.Files, r.Days)
	left, again := r.Counts["left"]
	switch {
	case !r.Applied:
		text = fmt.Sprintf("%d records in %d files would be forgotten, a dry run; %d days read", r.Records, r.Files, r.Days)
	case again:
		text += fmt.Sprintf("\n%d found by a second pass over all days", left)
	default:
		text += "\nit did not come to its end: there was no second pass over all days"
	}
	for _, more := range []struct {
		n    int64
		what string
	}{
		{r.Hidden, "in files that no reader sees, left by a crash or behind a delete marker"},
		{r.Locked, "in files that are locked, and stay"},
		{r.Counts["no_value"], "have no value in that column, and stay"},
		{r.Counts["keyless"], "of the quarantine have no key, were not searched, and stay"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf("\n%d records %s", more.n, more.what)
		}
	}
	return text
}}

// Forget removes the records that a Selection matches from the archive, for the right to erasure.
//
// Forget reads each day, rewrites the files that hold such records, and removes the old
// files and what crashes left behind. A second pass then counts records that a source
// archived meanwhile: see Report.Counts. When Forget returns nil, no file of the bucket
// holds the records, except files written during the call and the checkpoints of sources. In a
// [Versioned] bucket that includes versions behind a delete marker. A Compact or another Forget that read a day before the
// call, and is killed while it writes after it, leaves a file that no reader sees and that may hold them:
// the next Forget removes it.
// Before the call, delete the keys in their source, and let the source finish the batches it
// still holds: what it archives later stays in the archive.
//
// Forget reads the whole column of the keys, or what.Column, of each file: it believes no index and no
// filter, which have no checksum.
//
// Forget does not change values of other keys that mention a selected key. A life that what.Column selects in
// one file of a day, also behind a delete marker, goes from all of them. Other records without a value in the column are counted in
// "no_value" and stay. Records of the [Quarantine] have none, nor do records written before the
// column was added. Records of the quarantine without a key are in "keyless".
//
// Forget may run beside writers, readers and Compact. After a failure or a crash, run it
// again: the files already rewritten stay rewritten. A file that is corrupt, or of
// others beside the archive's, may hold selected records; it stays, and its error is joined to the
// returned error. So does a day where a run that was killed, or is under way, left files, and one that counts is corrupt: they
// may have what is damaged. Run [Repair], then Forget again. A file that the Bucket
// may not remove yet stays too. One *LockedError reports all such files: run Forget again
// after its time.
//
// The report is returned together with these errors too, which are its "problems".
//
// Errors: ErrLeft; *driver.InvalidError if the Selection sets none or several of its ways,
// or if no record has a value in its Column, with a type that fits Value.
func Forget(ctx context.Context, b Bucket, what Selection, opts *ForgetOptions) (*Report, error) {
	o := driver.Given(opts)
	if err := what.Validate(); err != nil {
		return nil, err
	}
	refused := map[string]error{}
	of := what.selector()
	r, err := forget(ctx, b, of, o, refused)
	if r != nil && !o.DryRun && endedWell(err) {
		second, failed := forget(ctx, b, of, ForgetOptions{DryRun: true}, refused)
		switch {
		case errors.Is(failed, driver.ErrInvalid): // the column went with its last value
			r.Counts["left"] = 0
		case !endedWell(failed):
			err = errors.Join(err, failed)
		default:
			r.Counts["left"] = second.Records + second.Hidden
			if r.Counts["left"] > 0 {
				err = errors.Join(err, ErrLeft)
			}
		}
	}
	if d, ok := b.(*directory); ok && !o.DryRun {
		err = errors.Join(err, d.clean()) // last: processes may have been killed meanwhile
	}
	if r != nil {
		r.after(o.Before)
		r.Ended = time.Now().UTC()
		if err != nil {
			r.Lists["problems"] = strings.Split(err.Error(), "\n")
		}
	}
	return r, err
}

// endedWell reports whether a walk visited all days: err is nil, or only about corrupt or locked
// files.
func endedWell(err error) bool {
	return err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrLocked)
}

func forget(ctx context.Context, b Bucket, what *selector, o ForgetOptions, refused map[string]error) (*Report, error) {
	r := forgetting.report()
	r.Applied, r.Began, r.Asked = !o.DryRun, time.Now().UTC(), what.Asked()
	f := &forgetter{Reader: NewReader(b), what: what, opts: o, report: r, refused: refused, own: map[string]bool{}, lives: map[Day]map[identity]bool{}}
	err := eachDay(ctx, f.catalog, Span{}, o.Progress, func(nth int, m *manifest) error {
		r.Days = nth + 1
		if err := syncDay(b, m.day); err != nil {
			return err
		}
		return f.rewrite(ctx, m)
	})
	if endedWell(err) {
		err = errors.Join(err, f.versions(ctx, "", false))
	}
	if what.Column != "" && f.rows > 0 && !f.anyValue && endedWell(err) {
		return r, &driver.InvalidError{Field: "Selection.Column", Value: strconv.Quote(what.Column), Rule: "must be a column of the archive, with Value of its type"}
	}
	return r, errors.Join(err, f.locked)
}

// forgetter is a Forget under way.
type forgetter struct {
	*Reader
	what     *selector
	opts     ForgetOptions
	report   *Report
	lives    map[Day]map[identity]bool // that Selection.Column selects in a file: they go from all
	rows     int64                     // rows of the files that were read
	anyValue bool                      // at least one row has a value in the selected column
	locked   error                     // one for all locked files
	refused  map[string]error          // by the name of a file, why it stays, where the second pass would not find that
	own      map[string]bool           // files that it has replaced, or has written without success
}

// note counts the records that were found in a file of a day, in one of the counters of r.
func (r *Report) note(d Day, found hit, in func(*Found) *int64) {
	*in(&r.Found) += found.n
	for i := range r.Asked {
		a, n := &r.Asked[i], found.n
		if a.Key != "" {
			n = found.keys[a.Key]
		}
		a.add(d, n, in)
	}
}

func (a *Asked) add(d Day, n int64, in func(*Found) *int64) {
	if n > 0 {
		*in(&a.Found) += n
		a.Days = maps.Clone(a.Days) // a copy of the report may have been handed to Save
		if a.Days == nil {
			a.Days = map[Day]int64{}
		}
		a.Days[d] += n
	}
}

// after adds what an earlier call found of a day and this one did not, because it was forgotten.
func (r *Report) after(before *Report) {
	if before == nil {
		return
	}
	r.Began = before.Began
	for i := range min(len(r.Asked), len(before.Asked)) {
		for d, n := range before.Asked[i].Days {
			n -= r.Asked[i].Days[d]
			r.Asked[i].add(d, n, records)
			r.Records += max(0, n)
		}
	}
}

func records(f *Found) *int64  { return &f.Records }
func hidden(f *Found) *int64   { return &f.Hidden }
func lockedIn(f *Found) *int64 { return &f.Locked }

// rewrite replaces the files of m that hold selected records by files without them, and removes the
// files that do not count.
func (f *forgetter) rewrite(ctx context.Context, m *manifest) error {
	if m.err != nil {
		return m.err
	}
	if !f.opts.DryRun { // before it counts as forgotten what stays
		err := m.remove(ctx, f.bucket, func(file dataFile) bool { return f.own[file.name] })
		if err == nil || errors.Is(err, ErrLocked) {
			err = m.guard(ctx, f.bucket, f.own)
		}
		if err != nil {
			return f.refuse(m, err)
		}
	}
	var hits []dataFile
	held := map[string]bool{} // all files with selected records, by name
	var corrupt []error
	if err := f.selectLives(ctx, m.day, slices.Concat(m.files, m.garbage)); err != nil {
		return err
	}
	if len(f.lives[m.day]) > 0 && !f.opts.DryRun { // before the values go by which another call would find these lives
		if err := f.versions(ctx, m.day.directory(), true); !endedWell(err) {
			return err
		}
	}
	next := f.report.clone() // if the day can be changed
	for _, name := range m.foreign {
		corrupt = append(corrupt, fmt.Errorf("it may hold selected records: %w", foreignFile(name)))
	}
	anyValue, rows := f.anyValue, f.rows
	for _, file := range m.files {
		found, hit, err := f.look(ctx, &next, m.day, file, true)
		switch {
		case errors.Is(err, ErrCorrupt):
			corrupt = append(corrupt, err)
		case err != nil:
			return err
		case hit:
			hits = append(hits, file)
			held[file.name] = true
		}
		rows += file.rows
		anyValue = anyValue || found.null < file.rows
		next.Counts["no_value"] += found.null
		if found.keyless > 0 {
			next.Counts["keyless"] += found.keyless
		}
	}
	write := len(hits) > 0
	for _, file := range m.garbage {
		_, hit, err := f.look(ctx, &next, m.day, file, false)
		if err != nil && !errors.Is(err, ErrCorrupt) && !gone(err) { // sweep removes a corrupt one
			return err
		}
		held[file.name] = hit
		write = write || m.ahead(file) && (hit || errors.Is(err, ErrCorrupt)) // sweep removes it after that
	}
	next.Files += len(hits)
	if write && !f.opts.DryRun { // commit fails with errOvertaken if a merge of these files came first
		swap := m.without(hits)
		swap.merged = m.merged && len(swap.marks) == 0
		var into []dataFile
		var err error
		for _, file := range hits {
			var more []dataFile
			more, err = f.rewriteFile(ctx, m, file)
			if into = append(into, more...); err != nil {
				break
			}
		}
		swap.files = append(swap.files, into...)
		if err == nil {
			err = f.save(next)
		}
		if err == nil {
			err = commit(ctx, f.bucket, m, swap)
		}
		if err != nil {
			written(f.own, into)
			return err
		}
		for _, file := range hits {
			f.own[file.name] = true
		}
	}
	*f.report, f.anyValue, f.rows = next, anyValue, rows
	if f.opts.DryRun {
		return errors.Join(corrupt...)
	}
	if !write && slices.ContainsFunc(m.garbage, func(file dataFile) bool { return held[file.name] }) {
		if err := f.save(next); err != nil {
			return err
		}
	}
	if write {
		now, err := f.catalog.manifest(ctx, m.day)
		if err != nil {
			return err
		}
		m = &now
	}
	err := m.err
	if err == nil {
		err = f.refuse(m, sweep(ctx, f.bucket, m, f.own))
	}
	if errors.Is(err, ErrLocked) { // sweep names locked files that hold nothing of this, too
		err = nil
		for _, file := range m.garbage { // a file with selected records may be locked though Removable said nothing
			if !held[file.name] || m.ahead(file) {
				continue
			}
			if failed := f.remove(ctx, file.name); !errors.Is(failed, ErrLocked) && !gone(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return errors.Join(append(corrupt, err)...)
}

// save hands r to ForgetOptions.Save, before what it tells of goes.
func (f *forgetter) save(r Report) error {
	if f.opts.Save == nil {
		return nil
	}
	r = r.clone()
	r.after(f.opts.Before)
	if err := f.opts.Save(&r); err != nil {
		return fmt.Errorf("ForgetOptions.Save: %w", err)
	}
	return nil
}

// selectLives notes the lives of a day that Selection.Column selects in one of several files, also in those behind
// a delete marker. A copy in another file may have been written before the column was added.
func (f *forgetter) selectLives(ctx context.Context, d Day, all []dataFile) error {
	if f.what.Column == "" {
		return nil
	}
	for i, err := range f.hidden(ctx, d.directory()) {
		if err != nil {
			return err
		}
		all = append(all, i.dataFile)
	}
	lives := map[identity]bool{}
	for _, file := range all {
		found, err := f.count(ctx, file, f.what)
		if err == nil && found.n > 0 && len(all) > 1 {
			err = f.each(ctx, file, f.what, func(life identity, _ parquet.Value, matches bool) {
				if matches {
					lives[life] = true
				}
			})
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !gone(err) {
			return err
		}
	}
	f.lives[d] = lives
	return nil
}

// refuse notes that the files of a day stay, if err is that one of them is corrupt.
func (f *forgetter) refuse(m *manifest, err error) error {
	if errors.Is(err, ErrCorrupt) {
		for _, file := range slices.Concat(m.files, m.garbage) {
			f.refused[file.name] = err
		}
	}
	return err
}

// look counts the selected records in a file, which counts or not. It returns whether there are any, in a file that is
// not locked. One that counts and is to be rewritten it reads whole.
func (f *forgetter) look(ctx context.Context, r *Report, d Day, file dataFile, counts bool) (found hit, selected bool, err error) {
	in := hidden
	if counts {
		in = records
	}
	found, err = f.holds(ctx, d, file)
	if err == nil && counts && found.n > 0 && !f.opts.DryRun {
		if err = checkSum(ctx, f.bucket, file); errors.Is(err, ErrCorrupt) {
			found, f.refused[file.name] = hit{}, err
		}
	}
	if errors.Is(err, ErrLocked) {
		r.note(d, found, lockedIn)
		return found, false, nil
	}
	if err == nil {
		r.note(d, found, in)
	}
	return found, err == nil && found.n > 0, err
}

// holds counts the selected records in a file. If there are any and the file is locked, the error
// is a *LockedError, which is noted.
func (f *forgetter) holds(ctx context.Context, d Day, file dataFile) (hit, error) {
	found, err := f.count(ctx, file, f.what)
	if lives := f.lives[d]; err == nil && len(lives) > 0 {
		err = f.each(ctx, file, f.what, func(life identity, v parquet.Value, matches bool) {
			if matches || !lives[life] {
				return
			}
			found.n++
			if v.IsNull() {
				found.null--
			}
		})
	}
	if errors.Is(err, ErrCorrupt) {
		return hit{}, fmt.Errorf("it may hold selected records: %w", err)
	}
	if err == nil && found.n > 0 {
		err = f.refused[file.name]
		if l, ok := f.bucket.(Versioned); ok && err == nil {
			err = f.lock(l.Removable(ctx, file.name))
		}
	}
	return found, err
}

// remove removes a file, and notes it if it is locked.
func (f *forgetter) remove(ctx context.Context, name string) error {
	err := f.lock(f.bucket.Remove(ctx, name))
	if errors.Is(err, ErrLocked) {
		f.refused[name] = err
	}
	return err
}

// lock notes err if it is a *LockedError, and returns it.
func (f *forgetter) lock(err error) error {
	if errors.Is(err, ErrLocked) {
		f.locked = withLocked(f.locked, err)
	}
	return err
}

// hiddenFile is a file that exists behind a delete marker only.
type hiddenFile struct {
	dataFile
	day Day
}

func (f *forgetter) hidden(ctx context.Context, prefix string) iter.Seq2[hiddenFile, error] {
	return func(yield func(hiddenFile, error) bool) {
		v, ok := f.bucket.(Versioned)
		if !ok {
			return
		}
		for i, err := range v.Hidden(ctx, prefix) {
			d, base, ok := dayIn(i.Name)
			name, _, _ := strings.Cut(base, "?")
			file, isFile := parseFile(i, name)
			if (err != nil || ok && isFile) && !yield(hiddenFile{file, d}, err) {
				return
			}
		}
	}
}

// versions removes the hidden files that hold selected records, or only those of them in which no value selects
// one.
func (f *forgetter) versions(ctx context.Context, prefix string, valueless bool) error {
	var corrupt []error
	for i, err := range f.hidden(ctx, prefix) {
		if err != nil {
			return err
		}
		if f.lives[i.day] == nil {
			if err := f.selectLives(ctx, i.day, nil); err != nil {
				return err
			}
		}
		own, _ := f.count(ctx, i.dataFile, f.what)
		if valueless && own.n > 0 {
			continue
		}
		found, err := f.holds(ctx, i.day, i.dataFile)
		if err == nil && found.n > 0 && !f.opts.DryRun {
			next := f.report.clone()
			next.note(i.day, found, hidden)
			if err := f.save(next); err != nil {
				return err
			}
			err = f.remove(ctx, i.name)
		}
		switch {
		case errors.Is(err, ErrLocked):
			f.report.note(i.day, found, lockedIn)
		case errors.Is(err, ErrCorrupt):
			corrupt = append(corrupt, err)
		case err == nil:
			f.report.note(i.day, found, hidden)
			if found.n == 0 {
				f.report.Counts["no_value"] += found.null
			}
			f.rows += i.rows
			f.anyValue = f.anyValue || own.null < i.rows
		case !gone(err):
			return err
		}
	}
	return errors.Join(corrupt...)
}

// rewriteFile writes the records of file that are not selected to new files.
func (f *forgetter) rewriteFile(ctx context.Context, m *manifest, file dataFile) ([]dataFile, error) {
	heads := openHeads(ctx, f.bucket, []dataFile{file}, false)
	if heads[0].err != nil {
		return nil, heads[0].err
	}
	t, lives := f.what.in(heads[0].layout), f.lives[m.day]
	return output(ctx, f.bucket, m, heads[0].layout.columns(), func(yield func(*Archived, error) bool) {
		for a, err := range merged(ctx, heads, nil) {
			if err == nil {
				if _, selected := t.match(a); selected || len(lives) > 0 && lives[a.identity()] {
					continue
				}
			}
			if !yield(a, err) {
				return
			}
		}
	})
}
