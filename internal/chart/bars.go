package chart

import (
	"fmt"
	"html"
	"math"
)

const (
	width     = 760
	margin    = 20
	labelSide = 220 // from the left edge to the bars
	valueSide = 80  // from the bars' end to the right edge
	barHeight = 16
	barStep   = 21
	groupHead = 30
	groupGap  = 14
	titles    = 62
)

// Bars is a chart of horizontal bars in groups.
type Bars struct {
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

// SVG draws c as an image, on a background of its own.
func (c Bars) SVG() string {
	height := titles
	for _, g := range c.Groups {
		height += groupHead + barStep*len(g.Bars) + groupGap
	}
	var d drawing
	fmt.Fprintf(&d, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, height, width, height, html.EscapeString(c.Title))
	d.WriteString("<style>" + Style + "</style>\n")
	fmt.Fprintf(&d, `<rect class="bg" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	d.text(margin, 30, "t", ` style="font-size:16px;font-weight:600"`, c.Title)
	d.text(margin, 50, "m", "", c.Unit)
	length := c.scale()
	y := titles
	for _, g := range c.Groups {
		y += groupHead
		d.text(margin, y-10, "t", ` style="font-weight:600"`, g.Title)
		d.line(labelSide, labelSide, y-3, y+barStep*len(g.Bars)-2)
		for _, bar := range g.Bars {
			class, weight := "b", ""
			if bar.Own {
				class, weight = "o", ";font-weight:600"
			}
			w := length(bar.Value)
			d.rect(class, labelSide, y, fmt.Sprintf("%.1f", w), barHeight)
			d.text(labelSide-8, y+13, "t", ` style="text-anchor:end`+weight+`"`, bar.Label)
			d.text(labelSide+int(w)+7, y+13, "m", "", Number(bar.Value))
			y += barStep
		}
		y += groupGap
	}
	return d.end()
}

// scale returns how long a value's bar is.
func (c Bars) scale() func(float64) float64 {
	most, least := 0.0, math.Inf(1)
	for _, g := range c.Groups {
		for _, bar := range g.Bars {
			most = max(most, bar.Value)
			if bar.Value > 0 {
				least = min(least, bar.Value)
			}
		}
	}
	const room = width - labelSide - valueSide
	return func(v float64) float64 {
		switch {
		case v <= 0 || most == 0:
			return 0
		case c.Log:
			// From a decade's beginning at or below the least.
			low := math.Floor(math.Log10(least)) - 0.2
			return room * (math.Log10(v) - low) / (math.Log10(most) - low)
		}
		return room * v / most
	}
}
