package runner

// Report is what a suite has to say.
type Report struct {
	Title   string
	Text    string // how it was measured, Markdown
	Figures []Figure
	Tables  []Table
	Charts  []Chart
}

// Table is a table of text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Chart is a chart of horizontal bars in groups.
type Chart struct {
	File   string // without ending
	Title  string
	Unit   string // what the bars' length is, and which way is better
	Log    bool   // a logarithmic scale
	Groups []Group
}

// Group is some bars under a heading.
type Group struct {
	Title string
	Bars  []Bar
}

// Bar is one bar.
type Bar struct {
	Label string
	Value float64
	Own   bool // one of ours, in the strong colour
}
