// Package chart draws charts as SVG, light or dark as the reader's system asks: bars as an image
// that can be read on any page, and columns and curves as a part of an HTML page, as wide as that
// lets them be.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Style is the style sheet of all charts. A page with columns or curves has it once.
const Style = `
.bg{fill:#ffffff;stroke:#d0d7de}.t{fill:#1f2328}.m{fill:#59636e}.b{fill:#9aa4af}.o{fill:#0969da}.a{stroke:#d0d7de}.s{fill:#0969da;opacity:.15}.l{fill:none;stroke:#0969da;stroke-width:2}
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:13px}
@media (prefers-color-scheme:dark){.bg{fill:#151b23;stroke:#3d444d}.t{fill:#f0f6fc}.m{fill:#9198a1}.b{fill:#656c76}.o{fill:#4493f8}.a{stroke:#3d444d}.s{fill:#4493f8;opacity:.25}.l{stroke:#4493f8}}
`

// drawing is an SVG under way. A place or length across is in pixels, or a share such as "12.5%".
type drawing struct{ strings.Builder }

func (d *drawing) text(x any, y int, class, more, s string) {
	if s == "" {
		return
	}
	fmt.Fprintf(d, `<text class="%s" x="%v" y="%d"%s>%s</text>`+"\n", class, x, y, more, html.EscapeString(s))
}

func (d *drawing) line(x1, x2 any, y1, y2 int) {
	fmt.Fprintf(d, `<line class="a" x1="%v" y1="%d" x2="%v" y2="%d"/>`+"\n", x1, y1, x2, y2)
}

func (d *drawing) rect(class string, x, y, width, height any) {
	fmt.Fprintf(d, `<rect class="%s" x="%v" y="%v" width="%v" height="%v"/>`+"\n", class, x, y, width, height)
}

// The height of a chart that is part of a page, in pixels: of the field, and of what is above and
// below it.
const (
	above = 26
	field = 160
	below = 22
)

// side is the share of a chart's width that values at its side have.
const side = 0.15

// begin begins a chart that is part of a page. Who does not see it is told what it shows.
func (d *drawing) begin(shows string) {
	fmt.Fprintf(d, `<svg width="100%%" height="%d" role="img" aria-label="%s">`+"\n", above+field+below, html.EscapeString(shows))
}

// end ends it.
func (d *drawing) end() string {
	d.WriteString("</svg>\n")
	return d.String()
}

// grid draws a line at this share of the field's height, with what it stands for at both ends.
func (d *drawing) grid(at float64, left, right string) {
	y := height(at)
	d.line(0, "100%", y, y)
	d.text(0, y-4, "m", "", left)
	d.text("100%", y-4, "m", ` text-anchor="end"`, right)
}

// label writes below the field, at this share of its width.
func (d *drawing) label(at float64, class, s string) {
	anchor := "middle"
	if at > 0.9 {
		anchor = "end"
	}
	d.text(percent(at), above+field+16, class, ` text-anchor="`+anchor+`"`, s)
}

func height(at float64) int { return above + field - int(math.Round(field*at)) }

func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }

// Share draws a bar as long as that share of a table's cell.
func Share(share float64) string {
	var d drawing
	d.WriteString(`<svg width="100%" height="12" aria-hidden="true">`)
	d.rect("o", 0, 0, percent(min(share, 1)), 12)
	return d.end()
}
