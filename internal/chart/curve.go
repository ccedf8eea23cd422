package chart

import (
	"fmt"
	"math"
	"strings"
)

// Curve is a chart of values on a logarithmic scale, side by side.
type Curve struct {
	Shows  string // in words
	Points []Point
	Right  float64 // what 1 is at the right side's scale; zero: there is none
}

// Point is a point of a curve.
type Point struct {
	Value float64 // zero: the curve does not come there
	Label string  // below the point; there is room for five
	Own   bool    // the point is marked
}

// SVG draws c as a part of a page.
func (c Curve) SVG() string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range c.Points {
		if p.Value > 0 {
			low, high = min(low, math.Floor(math.Log10(p.Value))), max(high, math.Floor(math.Log10(p.Value))+1)
		}
	}
	var d drawing
	d.begin(c.Shows)
	for decade := low; decade <= high; decade++ {
		v, right := math.Pow(10, decade), ""
		if c.Right > 0 {
			right = Amount(v * c.Right)
		}
		d.grid((decade-low)/(high-low), Amount(v), right)
	}
	var line strings.Builder
	for i, p := range c.Points {
		x, class := side+(1-2*side)*(float64(i)+0.5)/float64(len(c.Points)), "m"
		y := height((math.Log10(p.Value) - low) / (high - low))
		if p.Value > 0 {
			fmt.Fprintf(&line, "%.1f,%d ", 1000*x, y)
		}
		if p.Own && p.Value > 0 {
			class = "t"
			d.line(percent(x), percent(x), y, above+field)
			fmt.Fprintf(&d, `<circle class="o" cx="%s" cy="%d" r="6"/>`+"\n", percent(x), y)
		}
		d.label(x, class, p.Label)
	}
	fmt.Fprintf(&d, `<svg width="100%%" height="%d" viewBox="0 0 1000 %[1]d" preserveAspectRatio="none"><polyline class="l" vector-effect="non-scaling-stroke" points="%s"/></svg>`, above+field+below, line.String())
	return d.end()
}
