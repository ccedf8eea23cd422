package archive_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// An error about a broken rule names the field, its value and the rule.
func TestRules(t *testing.T) {
	of := func(*archive.Record) (any, error) { return nil, nil }
	b, _ := directory(t)
	columns := func(columns ...archive.Column) error {
		_, err := archive.NewWriter(b, &archive.WriterOptions{Columns: columns})
		return err
	}
	_, badName := b.ReadAt(t.Context(), "../x", nil, 0)
	for field, err := range map[string]error{
		"WriterOptions.Columns[0].Name":  columns(archive.Column{Type: archive.Text, Of: of}),
		"WriterOptions.Columns[1].Name":  columns(archive.Column{Name: "a", Type: archive.Text, Of: of}, archive.Column{Name: "a", Type: archive.Text, Of: of}),
		"WriterOptions.Columns[0].Name ": columns(archive.Column{Name: "day", Type: archive.Text, Of: of}),
		"WriterOptions.Columns[0].Type":  columns(archive.Column{Name: "a", Of: of}),
		"WriterOptions.Columns[0].Of":    columns(archive.Column{Name: "a", Type: archive.Text}),
		"name":                           badName,
	} {
		var invalid *driver.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) || invalid.Value == "" || invalid.Rule == "" {
			t.Errorf("%s: error %v, want one that names it, its value and the rule", field, err)
		}
	}
}

// A column may be null for a record, which differs from zero. A value of another type than the
// column's fails the write; the error names only its type.
func TestColumnOfSome(t *testing.T) {
	b, _ := directory(t)
	var note any
	w, err := archive.NewWriter(b, &archive.WriterOptions{
		Now: func() time.Time { return noon.AddDate(0, 0, 7) },
		Columns: []archive.Column{
			{Name: "note", Type: archive.Text, Of: func(*archive.Record) (any, error) { return note, nil }},
			{Name: "kind", Type: archive.Text, Of: func(*archive.Record) (any, error) { return "link", nil }},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, batch(0, 1, 0))
	for _, a := range all(t, b) {
		if _, has := a.Columns["note"]; has || a.Columns["kind"] != "link" {
			t.Errorf("columns %v", a.Columns)
		}
	}
	note = 17
	err = w.Write(t.Context(), batch(1, 2, 0))
	var invalid *driver.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "column note" || invalid.Value != "a int" || !strings.Contains(invalid.Rule, archive.Text.String()) {
		t.Errorf("an int in a column of text: %v", err)
	}
}
