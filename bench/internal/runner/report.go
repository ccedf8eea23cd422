package runner

import "github.com/slidingttl/slidingttl/internal/chart"

// Report is what a suite has to say.
type Report struct {
	Title   string
	Text    string // how it was measured, Markdown
	Figures []Figure
	Tables  []Table
	Charts  []chart.Bars
}

// Table is a table of text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}
