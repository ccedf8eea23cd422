// Package chart draws the bar charts of a report as SVG. A chart brings its own
// background, light or dark as the reader's system asks, so that it can be read on
// any page.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
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

const style = `<style>
.bg{fill:#ffffff;stroke:#d0d7de}.t{fill:#1f2328}.m{fill:#59636e}.b{fill:#9aa4af}.o{fill:#0969da}.a{stroke:#d0d7de}
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:13px}
@media (prefers-color-scheme:dark){.bg{fill:#151b23;stroke:#3d444d}.t{fill:#f0f6fc}.m{fill:#9198a1}.b{fill:#656c76}.o{fill:#4493f8}.a{stroke:#3d444d}}
</style>
`

// SVG draws c.
func SVG(c runner.Chart) string {
	height := titles
	for _, g := range c.Groups {
		height += groupHead + barStep*len(g.Bars) + groupGap
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, height, width, height, html.EscapeString(c.Title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="bg" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	text := func(x, y int, class, more, s string) {
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d"%s>%s</text>`+"\n", class, x, y, more, html.EscapeString(s))
	}
	text(margin, 30, "t", ` style="font-size:16px;font-weight:600"`, c.Title)
	text(margin, 50, "m", "", c.Unit)
	length := scale(c)
	y := titles
	for _, g := range c.Groups {
		y += groupHead
		text(margin, y-10, "t", ` style="font-weight:600"`, g.Title)
		fmt.Fprintf(&b, `<line class="a" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", labelSide, y-3, labelSide, y+barStep*len(g.Bars)-2)
		for _, bar := range g.Bars {
			class, weight := "b", ""
			if bar.Own {
				class, weight = "o", ";font-weight:600"
			}
			w := length(bar.Value)
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n", class, labelSide, y, w, barHeight)
			text(labelSide-8, y+13, "t", ` style="text-anchor:end`+weight+`"`, bar.Label)
			text(labelSide+int(w)+7, y+13, "m", "", runner.Number(bar.Value))
			y += barStep
		}
		y += groupGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scale returns how long a value's bar is.
func scale(c runner.Chart) func(float64) float64 {
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
