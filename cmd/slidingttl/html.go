package main

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/internal/chart"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
)

// page is a report as a page of HTML: its text as tables, and charts. It has no keys.
type page struct {
	Title, Store, Made string
	Sections           []*section
}

// section is a part of a page: a chart and a table, or its title alone.
type section struct {
	Title, Note string
	Chart       template.HTML
	Rows        []row
}

// row is a row of a table.
type row struct {
	Name, Note string
	Cells      []string
	Bar        template.HTML // of a share
	Own        bool          // it stands out
}

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"style": func() template.CSS { return chart.Style },
}).Parse(reportHTML))

// draws gives c the flag for a page.
func (a *app) draws(c *cobra.Command) {
	c.Flags().StringVar(&a.html, "html", "", "new `file` for the report as a page with charts; it has no keys")
	_ = c.MarkFlagFilename("html", "html")
}

// canDraw returns an error if a page could not be written.
func (a *app) canDraw() error {
	if a.html == "" {
		return nil
	}
	if err := absent(a.html, "name another file with --html"); err != nil {
		return err
	}
	err := put(a.html, func(io.Writer) error { return errPartly }) // it is not kept
	if !errors.Is(err, errPartly) {
		return fmt.Errorf("%w: --html: %w", errUsage, err)
	}
	return nil
}

// draw writes the report r on a store as a page.
func (a *app) draw(store string, r fmt.Stringer) error {
	if a.html == "" {
		return nil
	}
	p := &page{"Audit", store, time.Now().UTC().Format("2 January 2006, 15:04 UTC"), sections(r.String())}
	switch r := r.(type) {
	case *survey.AuditReport:
		p.audit(r)
	case *survey.DiffReport:
		p.Title = "Change of policy"
		p.add("Before, when they die if nobody reads them again").calendar(r.Before, r.After)
		p.add("After").calendar(r.After, r.Before)
	case *planned:
		p.Title = "Plan"
		if len(r.BySlack) > 0 {
			p.add("Touches and cost by slack").slacks(r)
		}
	}
	if err := put(a.html, func(w io.Writer) error { return reportPage.Execute(w, p) }); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// gap parts the cells of a line of text.
var gap = regexp.MustCompile(` {2,}`)

// sections is the text of a report as tables: below each title, the lines that are indented.
func sections(text string) []*section {
	var p page
	for line := range strings.Lines(text) {
		cells := gap.Split(strings.TrimRight(line, " \n"), -1)
		if cells[0] != "" || len(cells) == 1 {
			p.add(cells[0])
			continue
		}
		r := row{Name: cells[1]}
		for _, cell := range cells[2:] {
			if v, is := strings.CutSuffix(cell, " %"); is && r.Bar == "" {
				percent, _ := strconv.ParseFloat(v, 64)
				r.Bar = template.HTML(chart.Share(percent / 100))
			}
			r.Cells = append(r.Cells, strings.ReplaceAll(cell, " %", "\u00a0%"))
		}
		last := p.Sections[len(p.Sections)-1]
		last.Rows = append(last.Rows, r)
	}
	return p.Sections
}

// add adds a section, in the place of one that has nothing.
func (p *page) add(title string) *section {
	if n := len(p.Sections); n == 0 || p.Sections[n-1].Title != "" || p.Sections[n-1].Rows != nil {
		p.Sections = append(p.Sections, new(section))
	}
	last := p.Sections[len(p.Sections)-1]
	last.Title = title
	return last
}

// means says of a state what the policy does with such a record.
var means = map[string]string{
	"slides":        "follows the policy",
	"beyond policy": "expires later than the policy allows; its next read lowers that",
	"never expires": "its next read gives it an expiry",
	"no created at": "written by another program; its next read, or adopt, gives it a created_at",
	"past cap":      "older than the policy allows; reads do not find it, and reap removes it",
	"retained":      "dead, and held by the store for a while",
	"dead":          "expired, and not yet removed by the store",
	"implausible":   "its times make no sense, as if in another unit",
	"malformed":     "its times cannot be read, and reads of it fail",
}

// audit adds to the text of r what it means, when the records die, and examples.
func (p *page) audit(r *survey.AuditReport) {
	made := 0
	for i, s := range p.Sections {
		switch {
		case s.Title == "" && made == 0:
			s.Title, made = "What the keyspace is made of", i
		case s.Title == "":
			s.Title = "Of these"
		}
		for i := range s.Rows {
			s.Rows[i].Note = means[s.Rows[i].Name]
		}
	}
	dying := &section{Title: "When they die, left alone"}
	dying.calendar(r.Calendar)
	p.Sections = slices.Insert(p.Sections, made+1, dying)
	examples := &section{Title: "Examples, by the hashes of their keys that slidingttl list shows"}
	for state := verdict.Slides; state >= 0; state-- {
		if hashes := r.Examples[state]; len(hashes) > 0 {
			examples.Rows = append(examples.Rows, row{Name: strings.ReplaceAll(state.String(), "_", " "), Note: strings.Join(hashes, " ")})
		}
	}
	if len(examples.Rows) > 0 {
		p.Sections = append(p.Sections, examples)
	}
}
