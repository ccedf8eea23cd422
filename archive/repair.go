package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// magic begins and ends a Parquet file.
const magic = "PAR1"

var repairing = operation{"applied days lost rows restored foreign", func(r *Report) string {
	text := fmt.Sprintf("%d days have faults: %d files with %d rows are lost, %d files restored", r.Days, len(r.Lists["lost"]), r.Rows, len(r.Lists["restored"]))
	if !r.Applied && r.Days > 0 {
		text += ", a dry run"
	}
	for _, part := range []string{"lost", "restored", "foreign"} {
		for _, name := range r.Lists[part] {
			text += "\n  " + part + " " + name
		}
	}
	return text
}}

// Repair makes all rows of whole files readable after bytes were lost, or after a manifest file
// was. Without Walk.Apply the report says what it would do. It writes a manifest file that names the whole files of the day, and thereby declares the
// others lost; corrupt files are removed then or by the next Compact. One of a batch that the [Bucket] may not remove yet
// ([ErrLocked]) counts until it may. If a file is lost, Repair also
// restores files that no longer counted and are not yet removed, since they may have its rows: it
// copies them, for another operation may be about to remove them. They
// may have records that were forgotten since: run [Forget] again. Then run Compact. A source may hand
// over again what was lost.
//
// Repair may run beside other operations, and again. A file that is whole by its checksum stays as it is, with an
// error, where its records are of another day or in a form that this version does not know. A day that another
// version wrote stays as it is, with an error. So does a day of which nothing can be recognized, since it may be encrypted.
func Repair(ctx context.Context, b Bucket, w *Walk) (*Report, error) {
	o := driver.Given(w)
	r := repairing.report()
	r.Applied = o.Apply
	of, own := NewReader(b), map[string]bool{}
	err := eachDay(ctx, of.catalog, o.Span, o.Progress, func(_ int, m *manifest) error {
		found, err := of.mend(ctx, m, o.Apply, own)
		if endedWell(err) {
			r.Days += found.Days
			r.Rows += found.Rows
			for what, names := range found.Lists {
				r.Lists[what] = append(r.Lists[what], names...)
			}
		}
		return err
	})
	return r, err
}

// mend examines a day, and mends it if apply is true. It adds the copies that it makes to own, and removes those of an
// attempt that was overtaken: they may have what is forgotten since.
func (r *Reader) mend(ctx context.Context, m *manifest, apply bool, own map[string]bool) (found *Report, err error) {
	found = repairing.report()
	found.Lists["foreign"] = m.foreign
	if errors.Is(m.err, ErrVersion) {
		return found, m.err
	}
	unreadable := m.err != nil && len(m.missing) == 0 // no manifest file says what counts
	if !unreadable {
		if err := m.remove(ctx, r.bucket, func(f dataFile) bool { return own[f.name] }); err != nil && !errors.Is(err, ErrLocked) {
			return found, err
		}
	}
	whole := map[string]bool{}
	var odd error // what is wrong in files that are whole by their checksums
	for _, f := range slices.Concat(m.files, m.garbage) {
		wrong, sum := r.verify(ctx, m.day, f), error(nil)
		if errors.Is(wrong, ErrCorrupt) {
			sum = checkSum(ctx, r.bucket, f)
		}
		for _, err := range []error{wrong, sum} { // nothing is known of a file that cannot be read now
			if err != nil && !errors.Is(err, ErrCorrupt) {
				return found, err
			}
		}
		whole[f.name] = sum == nil
		if wrong != nil && sum == nil && slices.ContainsFunc(m.files, func(k dataFile) bool { return k.name == f.name }) {
			odd = errors.Join(odd, wrong)
		}
	}
	if r.unlike(ctx, m, whole) {
		return found, &CorruptError{File: m.day.directory(), Err: errUnlike}
	}
	var next change
	var remove, again []dataFile
	unsure := false // which of m.batches are lost
	lose := func(f dataFile, mayHold bool) {
		found.Lists["lost"] = append(found.Lists["lost"], f.name)
		found.Rows += f.rows
		unsure = unsure || mayHold
	}
	restore := func(is func(dataFile) bool) (restored bool) {
		for _, f := range m.garbage {
			if whole[f.name] && is(f) && !slices.ContainsFunc(slices.Concat(next.files, again), func(k dataFile) bool { return k.sum == f.sum }) {
				again = append(again, f)
				found.Lists["restored"] = append(found.Lists["restored"], f.name)
				restored = true
			}
		}
		return restored
	}
	for _, f := range m.files {
		switch {
		case whole[f.name] && f.merged:
			next.files = append(next.files, f)
		case !whole[f.name]:
			remove = append(remove, f)
			if !copied(f, m.files, whole) && !restore(func(g dataFile) bool { return g.sum == f.sum }) {
				lose(f, f.merged)
			}
		}
	}
	for _, name := range m.missing {
		f, _ := parseFile(Info{Name: name}, strings.TrimPrefix(name, m.day.directory()))
		if !restore(func(g dataFile) bool { return g.sum == f.sum }) {
			lose(f, true)
		}
	}
	for _, f := range m.garbage {
		if unreadable && !whole[f.name] && !m.ahead(f) && !copied(f, m.garbage, whole) {
			lose(f, true)
		}
	}
	if len(remove) == 0 && m.err == nil {
		return found, odd
	}
	found.Days = 1
	if len(found.Lists["lost"]) > 0 || unreadable {
		restore(func(dataFile) bool { return true })
	}
	if !apply {
		return found, odd
	}
	for _, f := range again {
		switch {
		case !unreadable || f.work: // another operation may be about to remove f, or a damaged file has its own name
			f, err = r.copy(ctx, m, f)
			if written(own, []dataFile{f}); err != nil {
				return found, err
			}
			next.files = append(next.files, f)
		case f.merged:
			next.files = append(next.files, f)
		}
	}
	if unsure { // sources may write all again: a life that is in two files is found once
		m.batches = nil
	}
	if unsure || unreadable {
		for _, f := range m.garbage {
			if !f.merged && !whole[f.name] { // it would count
				remove = append(remove, f)
			}
		}
	}
	if err := commit(ctx, r.bucket, m, next); err != nil {
		return found, err
	}
	for _, f := range remove {
		if err := r.bucket.Remove(ctx, f.name); err != nil {
			return found, err
		}
	}
	return found, odd
}

// copy copies a file that does not count to a name of the next manifest file's. No operation removes that
// before the next manifest file is there, whatever it took f for.
func (r *Reader) copy(ctx context.Context, m *manifest, f dataFile) (dataFile, error) {
	to := dataFile{size: f.size, rows: f.rows, sum: f.sum, merged: true, number: m.number + 1}
	to.name = m.nameOf(ctx, r.bucket, to)
	from := &section{ctx: ctx, bucket: r.bucket, name: f.name}
	err := r.bucket.Create(ctx, m.day.directory(), func(w io.Writer) (string, error) {
		_, err := io.Copy(w, io.NewSectionReader(from, 0, f.size))
		return workName(to.name), err
	})
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = checkLeft(ctx, r.bucket, to)
	}
	return to, err
}

// copied reports whether one of files that is whole has the rows of f.
func copied(f dataFile, files []dataFile, whole map[string]bool) bool {
	return slices.ContainsFunc(files, func(g dataFile) bool {
		return whole[g.name] && (g.sum == f.sum || !f.merged && g.mark == f.mark)
	})
}

var errUnlike = errors.New("nothing of this day can be recognized: if it is encrypted, give its keys; else remove its files yourself")

// unlike reports whether m's files look like another program's, as encrypted ones do, rather than damaged
// ones. Files lose their ends or some bytes, but one that began and ended as Parquet then seldom does neither.
func (r *Reader) unlike(ctx context.Context, m *manifest, whole map[string]bool) bool {
	files := slices.Concat(m.files, m.garbage)
	if m.number != 0 && m.err == nil || len(m.missing) > 0 || len(files) == 0 && m.err == nil {
		return false // its manifest file can be read
	}
	begins := func(name, with string, off int64) bool {
		p := make([]byte, len(with))
		n, _ := r.bucket.ReadAt(ctx, name, p, off)                                               // a file that cannot be decrypted fails
		return n == len(p) && (string(p) == with || string(p) == strings.Repeat("\x00", len(p))) // the bytes were lost
	}
	for _, f := range files {
		if whole[f.name] || f.size < 2*int64(len(magic)) || begins(f.name, magic, 0) || begins(f.name, magic, f.size-int64(len(magic))) {
			return false
		}
	}
	return len(files) > 0 || !begins(m.name, "{", 0)
}
