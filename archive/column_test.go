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
	of := func(*archive.Record) (string, bool, error) { return "", false, nil }
	var none func(*archive.Record) (string, bool, error)
	b, _ := directory(t)
	columns := func(columns ...archive.Column) error {
		_, err := archive.NewWriter(b, &archive.WriterOptions{Columns: columns})
		return err
	}
	_, badName := b.ReadAt(t.Context(), "../x", nil, 0)
	for field, err := range map[string]error{
		"WriterOptions.Columns[0].name":  columns(archive.NewColumn("", of)),
		"WriterOptions.Columns[1].name":  columns(archive.NewColumn("a", of), archive.NewColumn("a", of)),
		"WriterOptions.Columns[0].name ": columns(archive.NewColumn("day", of)),
		"WriterOptions.Columns[0].of":    columns(archive.NewColumn("a", none)),
		"name":                           badName,
	} {
		var invalid *driver.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) || invalid.Value == "" || invalid.Rule == "" {
			t.Errorf("%s: error %v, want one that names it, its value and the rule", field, err)
		}
	}
}

// A column may be null for a record, which differs from zero.
func TestColumnOfSome(t *testing.T) {
	b, _ := directory(t)
	w, err := archive.NewWriter(b, &archive.WriterOptions{
		Now: func() time.Time { return noon.AddDate(0, 0, 7) },
		Columns: []archive.Column{
			archive.NewColumn("note", func(*archive.Record) (string, bool, error) { return "", false, nil }),
			archive.NewColumn("kind", func(*archive.Record) (string, bool, error) { return "", true, nil }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, batch(0, 1, 0))
	for _, a := range all(t, b) {
		if _, has := a.Columns["note"]; has || a.Columns["kind"] != "" {
			t.Errorf("columns %v", a.Columns)
		}
	}
}
